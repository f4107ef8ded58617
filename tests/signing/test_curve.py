from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sandseal_signing.curve import P, why_unsafe


def test_keys_that_were_generated_are_safe() -> None:
    for seed in range(20):
        key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32).public_key()
        assert why_unsafe(key.public_bytes(Encoding.Raw, PublicFormat.Raw)) is None


def test_the_base_point_is_safe() -> None:
    assert why_unsafe(bytes([0x58, *[0x66] * 31])) is None
    assert why_unsafe(bytes([0x58, *[0x66] * 30, 0xE6])) is None  # its negative


def test_an_encoding_from_p_on_is_not_canonical() -> None:
    for y in range(P, 2**255):
        for sign in (0, 1 << 255):
            assert why_unsafe((y | sign).to_bytes(32, "little")) == "its encoding is not canonical"


def test_half_of_all_encodings_are_no_points() -> None:
    reasons = [why_unsafe(y.to_bytes(32, "little")) for y in range(2, 102)]
    assert 30 < reasons.count("it is not a point on the curve") < 70


def test_the_sign_of_zero_is_not_a_point() -> None:
    assert why_unsafe(bytes([1, *[0] * 30, 0x80])) == "it is not a point on the curve"


def test_small_order_and_mixed_order_are_told_apart() -> None:
    identity = bytes([1, *[0] * 31])
    assert why_unsafe(identity) == "it has small order: one fixed signature verifies any message under it"
    reasons = {why_unsafe(y.to_bytes(32, "little")) for y in range(2, 102)}
    assert "it is outside the prime-order subgroup" in reasons  # seven of eight points are
