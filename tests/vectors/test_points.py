"""Ed25519 points under which forgeries verify must never be enrolled."""

import base64
import re

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from sandseal_signing.curve import why_unsafe
from sandseal_signing.errors import KeyUnsafe
from sandseal_signing.keys import PublicKey
from support.shared import vectors


@pytest.fixture(scope="module")
def points() -> list[bytes]:
    """The 14 small-order or non-canonical encodings, then a key with a low-order component."""
    return [bytes.fromhex(text) for text in re.findall(r"\b[0-9a-f]{64}\b", vectors("README.md").read_text())]


def test_every_published_point_is_refused(points: list[bytes]) -> None:
    assert len(points) == 15
    for raw in points:
        with pytest.raises(KeyUnsafe):
            PublicKey.parse("ed25519:" + base64.b64encode(raw).decode())


def test_each_is_refused_for_its_own_reason(points: list[bytes]) -> None:
    reasons = [why_unsafe(raw) for raw in points]
    assert [str(reason).split(":")[0] for reason in reasons] == [
        "it has small order",
        "its encoding is not canonical",
        "it has small order",
        "its encoding is not canonical",
        "it has small order",
        "it is not a point on the curve",
        *["its encoding is not canonical"] * 2,
        *["it has small order"] * 5,
        "it is not a point on the curve",
        "it is outside the prime-order subgroup",
    ]


def test_the_identity_key_would_verify_anything(points: list[bytes]) -> None:
    """Why the check exists: the signature R = identity, S = 0 verifies any message under the identity key."""
    identity = bytes([1, *[0] * 31])
    assert identity in points
    for message in (b"", b"any", b"other"):
        ed25519.Ed25519PublicKey.from_public_bytes(identity).verify(identity + bytes(32), message)
