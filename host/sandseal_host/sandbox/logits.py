"""What the host gives a logits stage besides its inputs (sdk/abi/abi-v1.md, "Logits stages")."""

import struct
from collections.abc import Collection, Mapping, Sequence

from sandseal_host.tensors import pack_bytes

VOCABULARY = "vocabulary"
"""The asset that every logits stage can read."""


def logits_assets(tokens: Sequence[bytes], special: Collection[int], stop_ids: Sequence[int]) -> Mapping[str, bytes]:
    """The asset `vocabulary` of a model.

    Args:
        tokens: the bytes of each token, by id.
        special: ids of those that are no text, whose bytes are left out.
        stop_ids: ids that end an answer.
    """
    texts = [b"" if token in special else text for token, text in enumerate(tokens)]
    stops = struct.pack(f"<{len(stop_ids) + 1}I", len(stop_ids), *stop_ids)
    return {VOCABULARY: stops + pack_bytes(texts).tobytes()}
