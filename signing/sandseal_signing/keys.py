"""Public and private keys: Ed25519 first; ECDSA P-256 and P-384 for signatures that stock OMS tools verify too."""

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

from sandseal_signing.curve import why_unsafe
from sandseal_signing.errors import KeyInvalid, KeyUnsafe

_INLINE = "ed25519:"
_ECDSA: dict[str, tuple[str, hashes.HashAlgorithm]] = {
    "secp256r1": ("ecdsa-p256", hashes.SHA256()),
    "secp384r1": ("ecdsa-p384", hashes.SHA384()),
}
_KINDS = "use Ed25519, or ECDSA P-256 or P-384 for a co-signature"


@dataclass(frozen=True)
class PublicKey:
    """A public key that is safe to enrol, compared by its DER SubjectPublicKeyInfo.

    Args:
        der: the SubjectPublicKeyInfo in its one encoding; `parse` reads the forms that people write.

    Raises:
        KeyInvalid: not a key, or of a kind that is not used here.
        KeyUnsafe: an Ed25519 point that is not canonical, on the curve and of prime order.
    """

    der: bytes

    def __post_init__(self) -> None:
        key = self._key
        raw = key.public_bytes(Encoding.Raw, PublicFormat.Raw) if isinstance(key, ed25519.Ed25519PublicKey) else None
        if raw and (why := why_unsafe(raw)):
            raise KeyUnsafe(f"this Ed25519 key is refused: {why}")
        if _der(key) != self.der:
            raise KeyInvalid("this is not the one DER encoding of its public key")

    @classmethod
    def parse(cls, text: str) -> "PublicKey":
        """Read a PEM public key, or `ed25519:<base64 of 32 bytes>`.

        Raises:
            KeyInvalid, KeyUnsafe: see above.
        """
        try:
            if text.startswith(_INLINE):
                raw = base64.b64decode(text.removeprefix(_INLINE).strip(), validate=True)
                return cls(_der(ed25519.Ed25519PublicKey.from_public_bytes(raw)))
            if text.count("-----BEGIN") > 1:
                raise ValueError("more than one PEM block")
            return cls(_der(load_pem_public_key(text.encode())))
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyInvalid(f"not a public key in PEM or 'ed25519:<base64>' form ({error})") from None

    @cached_property
    def _key(self) -> ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey:
        try:
            key = load_der_public_key(self.der)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyInvalid(f"not a public key in DER form ({error})") from None
        if isinstance(key, ed25519.Ed25519PublicKey):
            return key
        if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _ECDSA:
            return key
        raise KeyInvalid(f"public keys of kind {_kind(key)} are not used here", hint=_KINDS)

    @property
    def algorithm(self) -> str:
        """`ed25519`, `ecdsa-p256` or `ecdsa-p384`."""
        key = self._key
        return "ed25519" if isinstance(key, ed25519.Ed25519PublicKey) else _ECDSA[key.curve.name][0]

    @property
    def pem(self) -> str:
        """The SubjectPublicKeyInfo as PEM text, final newline included."""
        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    @property
    def inline(self) -> str:
        """The one-line form for trust files; PEM for keys other than Ed25519."""
        if not isinstance(self._key, ed25519.Ed25519PublicKey):
            return self.pem
        return _INLINE + base64.b64encode(self._key.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()

    @cached_property
    def hint(self) -> str:
        """OMS's key hint: SHA-256 of the PEM text, in hex."""
        return hashlib.sha256(self.pem.encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the DER SubjectPublicKeyInfo, in hex; what revocations name."""
        return hashlib.sha256(self.der).hexdigest()

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether `signature` over `message` is this key's (RFC 8032 pure Ed25519; FIPS 186-5 ECDSA, DER)."""
        key = self._key
        try:
            if isinstance(key, ed25519.Ed25519PublicKey):
                key.verify(signature, message)
            else:
                key.verify(signature, message, ec.ECDSA(_ECDSA[key.curve.name][1]))
        except InvalidSignature:
            return False
        return True


class PrivateKey:
    """A signing key held in memory.

    Args:
        key: an Ed25519 or ECDSA P-256/P-384 private key of the `cryptography` package.

    Raises:
        KeyInvalid: a key of another kind.
    """

    def __init__(self, key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public = PublicKey(_der(key.public_key()))

    @classmethod
    def generate(cls, algorithm: str = "ed25519") -> "PrivateKey":
        """A new key: `ed25519`, or `ecdsa-p256` for a co-signature that stock OMS tools verify."""
        if algorithm == "ed25519":
            return cls(ed25519.Ed25519PrivateKey.generate())
        if algorithm == "ecdsa-p256":
            return cls(ec.generate_private_key(ec.SECP256R1()))
        raise KeyInvalid(f"cannot make {algorithm!r} keys", hint="use ed25519 or ecdsa-p256")

    @classmethod
    def parse(cls, pem: bytes, passphrase: bytes | None = None) -> "PrivateKey":
        """Read a PEM private key.

        Raises:
            KeyInvalid: not a key, of an unused kind, or the passphrase is missing, wrong or superfluous.
        """
        try:
            key = load_pem_private_key(pem, passphrase)
        except TypeError as error:
            raise KeyInvalid(f"private key: {error}", hint="give the passphrase exactly when the key has one") from None
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyInvalid(
                f"not a private key in PEM form, or the passphrase is wrong ({error})",
                hint="check the file and its passphrase; `sandseal keygen NAME` makes a new key",
            ) from None
        if not isinstance(key, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey):
            raise KeyInvalid(f"private keys of kind {_kind(key)} are not used here", hint=_KINDS)
        return cls(key)

    def pem(self, passphrase: bytes | None = None) -> bytes:
        """PKCS#8 PEM, encrypted when a passphrase is given.

        Raises:
            KeyInvalid: an empty or overlong passphrase.
        """
        try:
            encryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
            return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        except ValueError as error:
            raise KeyInvalid(f"cannot encrypt the private key ({error})", hint="choose another passphrase") from None

    def sign(self, message: bytes) -> bytes:
        """A signature that `public.verifies`."""
        if isinstance(self._key, ed25519.Ed25519PrivateKey):
            return self._key.sign(message)
        return self._key.sign(message, ec.ECDSA(_ECDSA[self._key.curve.name][1]))


def _der(key: Any) -> bytes:
    der: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return der


def _kind(key: Any) -> str:
    curve = getattr(key, "curve", None)
    return f"ECDSA {curve.name}" if curve else type(key).__name__
