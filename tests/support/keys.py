"""Keys that are the same in every run."""

import hashlib
from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sandseal_signing.keys import PrivateKey


@cache
def ed25519_key(name: str) -> PrivateKey:
    """The Ed25519 key whose seed is the SHA-256 of `name`."""
    return seeded_key(hashlib.sha256(name.encode()).digest())


def seeded_key(seed: bytes) -> PrivateKey:
    """The Ed25519 key of a seed of 32 bytes."""
    return PrivateKey(ed25519.Ed25519PrivateKey.from_private_bytes(seed))


@cache
def p256_key(name: str) -> PrivateKey:
    """The P-256 key whose scalar is the SHA-256 of `name`."""
    return PrivateKey(ec.derive_private_key(_scalar(name), ec.SECP256R1()))


@cache
def p384_key(name: str) -> PrivateKey:
    """The P-384 key whose scalar is the SHA-256 of `name`."""
    return PrivateKey(ec.derive_private_key(_scalar(name), ec.SECP384R1()))


def _scalar(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest(), "big") >> 1
