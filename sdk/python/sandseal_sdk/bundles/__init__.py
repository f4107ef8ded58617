"""What publishing and verifying bundles needs beyond `sandseal_signing`, which does no I/O.

card           the model card
graph          what an ONNX file says of itself
keyfiles       key pairs on disk
trust_file     a key enrolled in a trust policy's text
sources        where a bundle to verify lies
verification   the host's own checks, without a host
"""
