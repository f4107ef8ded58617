"""The host's own keys, for its log and its receipts: a file for each, which only the host's user may read."""

import stat
from pathlib import Path

from sandseal_host.errors import StoreError
from sandseal_host.registry.files import replace_private, sync_folder
from sandseal_signing.keys import PrivateKey, PublicKey
from sandseal_signing.logentry import Role


class Keyring:
    """The keys in a folder of their own; a key that is not there yet is made.

    Args:
        folder: made when absent, for the host's user only.

    Raises:
        StoreError: the folder or a key cannot be used; so from every method.
        KeyInvalid: a file holds no key.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for role in Role:
                if not self._path(role).exists():
                    self._write(self._path(role), PrivateKey.generate())
        except OSError as error:
            raise StoreError(f"cannot keep the host's keys in {folder}: {error.strerror}") from error

    def key(self, role: Role) -> PrivateKey:
        """The key in force."""
        return _read(self._path(role))

    def successor(self, role: Role) -> PrivateKey:
        """A new key, kept beside the one in force until `settle`."""
        key = PrivateKey.generate()
        self._write(self._next(role), key)
        return key

    def settle(self, role: Role, in_force: PublicKey | None) -> None:
        """End a rotation, also one that was broken off: the successor takes the place, or goes.

        Args:
            in_force: the key that the log says is in force; None when the log knows of no rotation.
        """
        coming = self._next(role)
        if not coming.exists():
            return
        if _read(coming).public == in_force:
            coming.replace(self._path(role))
        else:
            coming.unlink()
        sync_folder(self._folder)

    def publish(self, role: Role, text: str) -> Path:
        """Write the public part beside the key, in the form that others take it in."""
        path = self._folder / f"{role}.pub"
        path.write_text(f"{text}\n", encoding="ascii")
        return path

    def _path(self, role: Role) -> Path:
        return self._folder / f"{role}.key"

    def _next(self, role: Role) -> Path:
        return self._folder / f"{role}.key.next"

    def _write(self, path: Path, key: PrivateKey) -> None:
        replace_private(path, key.pem())


def _read(path: Path) -> PrivateKey:
    try:
        mode, pem = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise StoreError(f"others may read {path}, a private key", hint=f"chmod 600 {path}, and rotate the key")
    return PrivateKey.parse(pem)
