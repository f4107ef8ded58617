"""A second, independent Ed25519 (libsodium, through PyNaCl) says the same about every signature that the tests have."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from sandseal_signing.curve import L
from sandseal_signing.keys import PublicKey
from support.keys import ed25519_key
from support.shared import json_vectors
from vectors.hostile import corpus
from vectors.hostile.case import outcome
from vectors.hostile.points import small_order_encodings

ALICE = ed25519_key("alice")


def second(key: PublicKey, signature: bytes, message: bytes) -> bool:
    """Whether libsodium takes the signature."""
    try:
        VerifyKey(key.der[-32:]).verify(message, signature)
    except (BadSignatureError, ValueError):  # ValueError: not 64 bytes
        return False
    return True


@pytest.mark.slow
def test_the_hostile_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[PublicKey, bytes, bytes, bool]] = []
    verifies = PublicKey.verifies

    def recorded(key: PublicKey, signature: bytes, message: bytes) -> bool:
        answer = verifies(key, signature, message)
        asked.append((key, signature, message, answer))
        return answer

    monkeypatch.setattr(PublicKey, "verifies", recorded)
    for name, case in corpus().items():
        (tmp_path / name).mkdir()
        outcome(case, tmp_path / name)
    ours = [call for call in asked if call[0].algorithm == "ed25519"]
    assert len(ours) > 150
    assert [call for call in ours if second(*call[:3]) is not call[3]] == []


def test_wycheproof() -> None:
    for group in json_vectors("wycheproof/ed25519_test.json")["testGroups"]:
        key = PublicKey.parse(group["publicKeyPem"])
        for case in group["tests"]:
            assert second(key, bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"])) is (case["result"] == "valid")


def test_small_orders_are_refused_there_too() -> None:
    """Keys of mixed order are taken; enrolment here refuses both."""
    encodings = small_order_encodings()
    assert len(encodings) == 14
    for encoded in encodings:
        with pytest.raises(BadSignatureError):
            VerifyKey(encoded).verify(b"any", bytes([1, *[0] * 63]))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=100), st.integers(0, 511), st.booleans())
def test_changed_signatures(message: bytes, bit: int, flip: bool) -> None:
    signature = bytearray(ALICE.sign(message))
    signature[bit // 8] ^= flip << bit % 8
    for data in (message, message + b"x"):
        assert ALICE.public.verifies(bytes(signature), data) is second(ALICE.public, bytes(signature), data)


def test_the_one_difference_is_one_that_only_the_key_s_holder_can_make() -> None:
    """R of small order: OpenSSL takes it, libsodium does not; nothing follows, as no identity hangs on signatures."""
    seed = hashlib.sha256(b"alice").digest()
    half = bytearray(hashlib.sha512(seed).digest()[:32])
    half[0], half[31] = half[0] & 248, half[31] & 63 | 64
    r = bytes([1, *[0] * 31])
    k = int.from_bytes(hashlib.sha512(r + ALICE.public.der[-32:] + b"any").digest(), "little")
    signature = r + (k * int.from_bytes(half, "little") % L).to_bytes(32, "little")
    assert ALICE.public.verifies(signature, b"any")
    assert not second(ALICE.public, signature, b"any")
