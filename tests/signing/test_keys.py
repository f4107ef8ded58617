import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from sandseal_signing.errors import KeyInvalid, KeyUnsafe
from sandseal_signing.keys import PrivateKey, PublicKey
from support.keys import ed25519_key, p256_key, p384_key

ALICE = ed25519_key("alice")
KEYS = {"ed25519": ALICE, "ecdsa-p256": p256_key("alice"), "ecdsa-p384": p384_key("alice")}


def inline(raw: bytes) -> str:
    return "ed25519:" + base64.b64encode(raw).decode()


def pem_of(key: object) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def der_of(key: object) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(("algorithm", "key"), KEYS.items(), ids=KEYS)
def test_a_key_survives_every_form_that_it_is_written_in(algorithm: str, key: PrivateKey) -> None:
    public = key.public
    assert public.algorithm == algorithm
    assert PublicKey.parse(public.pem) == public
    assert PublicKey.parse(public.inline) == public
    assert PublicKey(public.der) == public
    assert PrivateKey.parse(key.pem()).public == public
    assert PrivateKey.parse(key.pem(b"secret"), b"secret").public == public


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_signature_is_its_keys_and_its_messages_alone(key: PrivateKey) -> None:
    signature = key.sign(b"message")
    assert key.public.verifies(signature, b"message")
    assert not key.public.verifies(signature, b"messagf")
    assert not key.public.verifies(signature[:-1], b"message")
    assert not key.public.verifies(signature + b"\0", b"message")
    assert not key.public.verifies(b"", b"message")
    for stranger in (ed25519_key("bob"), p256_key("bob"), p384_key("bob")):
        assert not stranger.public.verifies(signature, b"message")


def test_ed25519_signatures_are_deterministic() -> None:
    assert ALICE.sign(b"x") == ALICE.sign(b"x")
    assert len(ALICE.sign(b"x")) == 64


def test_hint_and_fingerprint_are_digests_of_pem_and_der() -> None:
    public = ALICE.public
    assert public.pem.startswith("-----BEGIN PUBLIC KEY-----\n")
    assert public.pem.endswith("-----END PUBLIC KEY-----\n")
    assert public.hint == hashlib.sha256(public.pem.encode()).hexdigest()
    assert public.fingerprint == hashlib.sha256(public.der).hexdigest()
    assert public.inline.startswith("ed25519:")


def test_keys_are_compared_by_what_they_are_not_how_they_were_written() -> None:
    untidy = "some words before\n" + ALICE.public.pem.replace("\n", "\r\n") + "and after\n"
    assert PublicKey.parse(untidy) == ALICE.public
    assert PublicKey.parse(untidy).hint == ALICE.public.hint
    compressed = p256_key("alice").public._key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    again = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), compressed)
    assert PublicKey.parse(pem_of(again)) == p256_key("alice").public


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a public key"),
        ("hello", "not a public key"),
        ("ed25519:", "not a public key"),
        ("ed25519:!!!!", "not a public key"),
        (inline(b"x" * 31), "not a public key"),
        (inline(b"x" * 33), "not a public key"),
        ("\ud800", "not a public key"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "not a public key"),
        (ALICE.pem().decode(), "not a public key"),
        (pem_of(rsa.generate_private_key(65537, 2048).public_key()), "of kind RSAPublicKey are not used"),
        (pem_of(ec.generate_private_key(ec.SECP521R1()).public_key()), "of kind ECDSA secp521r1 are not used"),
        (pem_of(ec.generate_private_key(ec.SECP256K1()).public_key()), "of kind ECDSA secp256k1 are not used"),
        (pem_of(ed448.Ed448PrivateKey.generate().public_key()), "of kind Ed448PublicKey are not used"),
        (pem_of(x25519.X25519PrivateKey.generate().public_key()), "of kind X25519PublicKey are not used"),
        (pem_of(dsa.generate_private_key(1024).public_key()), "of kind DSAPublicKey are not used"),
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_what_is_no_public_key(text: str, why: str) -> None:
    with pytest.raises(KeyInvalid, match=why):
        PublicKey.parse(text)


def test_an_unsafe_point_is_refused_in_every_form() -> None:
    for raw in (bytes([1, *[0] * 31]), b"\2" + bytes(31), b"\xee" + b"\xff" * 30 + b"\x7f"):
        key = ed25519.Ed25519PublicKey.from_public_bytes(raw)  # the package takes them all
        for read, form in ((PublicKey.parse, inline(raw)), (PublicKey.parse, pem_of(key)), (PublicKey, der_of(key))):
            with pytest.raises(KeyUnsafe, match="this Ed25519 key is refused: it"):
                read(form)


def test_only_the_one_der_encoding_makes_a_key() -> None:
    compressed = p256_key("alice").public._key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    header = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200")
    for der in (b"", b"\x30", header + compressed, ALICE.public.der + b"\0", p256_key("alice").public.der[:-1]):
        with pytest.raises(KeyInvalid):
            PublicKey(der)


@pytest.mark.parametrize(
    ("pem", "passphrase", "why"),
    [
        (b"", None, "not a private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", None, "not a private key"),
        (ALICE.public.pem.encode(), None, "not a private key"),
        (ALICE.pem(), b"secret", "not encrypted"),
        (ALICE.pem(b"secret"), None, "encrypted"),
        (ALICE.pem(b"secret"), b"other", "the passphrase is wrong"),
        (ALICE.pem(b"secret"), b"", "encrypted"),
    ],
)
def test_what_is_no_private_key(pem: bytes, passphrase: bytes | None, why: str) -> None:
    with pytest.raises(KeyInvalid, match=why) as caught:
        PrivateKey.parse(pem, passphrase)
    assert pem[28:50].decode() not in str(caught.value) or not pem


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (rsa.generate_private_key(65537, 2048), "RSAPrivateKey"),
        (ec.generate_private_key(ec.SECP521R1()), "ECDSA secp521r1"),
        (ed448.Ed448PrivateKey.generate(), "Ed448PrivateKey"),
    ],
    ids=["rsa", "p521", "ed448"],
)
def test_private_keys_of_other_kinds_are_refused(key: object, kind: str) -> None:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(KeyInvalid, match=f"of kind {kind} are not used here"):
        PrivateKey.parse(pem)


def test_a_private_key_is_written_as_pkcs8() -> None:
    assert ALICE.pem().startswith(b"-----BEGIN PRIVATE KEY-----")
    assert ALICE.pem(b"secret").startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert isinstance(load_pem_private_key(ALICE.pem(), None), ed25519.Ed25519PrivateKey)


@pytest.mark.parametrize("passphrase", [b"", b"x" * 2000], ids=["empty", "overlong"])
def test_a_passphrase_that_encrypts_nothing_is_refused(passphrase: bytes) -> None:
    with pytest.raises(KeyInvalid, match="cannot encrypt the private key"):
        ALICE.pem(passphrase)


@pytest.mark.parametrize("algorithm", ["ed25519", "ecdsa-p256"])
def test_generated_keys_differ_and_work(algorithm: str) -> None:
    one, two = PrivateKey.generate(algorithm), PrivateKey.generate(algorithm)
    assert one.public.algorithm == algorithm
    assert one.public != two.public
    assert one.public.verifies(one.sign(b"x"), b"x")


def test_only_known_kinds_are_generated() -> None:
    with pytest.raises(KeyInvalid, match="cannot make 'rsa' keys"):
        PrivateKey.generate("rsa")


def test_a_private_key_does_not_show_itself() -> None:
    assert "PRIVATE" not in repr(ALICE)
    assert "PRIVATE" not in str(vars(ALICE))
