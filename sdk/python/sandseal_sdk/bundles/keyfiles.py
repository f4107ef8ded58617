"""Key pairs on disk: NAME.key (private, only the owner may read it) and NAME.pub."""

import os
from collections.abc import Callable
from pathlib import Path

from sandseal_sdk.errors import FileExists
from sandseal_signing.errors import KeyInvalid
from sandseal_signing.keys import PrivateKey, PublicKey


def write_key_pair(base: Path, key: PrivateKey, passphrase: bytes | None = None) -> tuple[Path, Path]:
    """Write `base`.key and `base`.pub; never overwrites a key.

    Raises:
        FileExists: one of them is already there.
    """
    private, public = base.with_name(base.name + ".key"), base.with_name(base.name + ".pub")
    for path in (private, public):
        if path.exists():
            raise FileExists(f"{path} is already there", hint="choose another name; keys are never overwritten")
    base.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.pem(passphrase))
    public.write_text(key.public.pem, encoding="ascii")
    return private, public


def read_private_key(path: Path, ask: Callable[[], str]) -> PrivateKey:
    """Read a private key; `ask` is called for the passphrase only when the key has one.

    Raises:
        KeyInvalid: unreadable, not a key, or the wrong passphrase.
    """
    try:
        pem = path.read_bytes()
    except OSError as error:
        raise KeyInvalid(f"cannot read key {path}: {error.strerror}") from None
    passphrase = ask().encode() if b"ENCRYPTED" in pem else None
    return PrivateKey.parse(pem, passphrase)


def read_public_key(path: Path) -> PublicKey:
    """Read a public key from a file of its one-line form or PEM; text before the PEM is passed over (RFC 7468).

    Raises:
        KeyInvalid, KeyUnsafe: unreadable, or not a key that can be used here.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KeyInvalid(f"cannot read key {path}: {error}") from None
    return PublicKey.parse(text[max(text.find("-----BEGIN PUBLIC KEY-----"), 0) :])
