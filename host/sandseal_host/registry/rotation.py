"""The host's keys and its log together: what the log says of a key holds, whatever a crash left in the files."""

from sandseal_host.errors import StoreError
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.keyring import Keyring
from sandseal_host.registry.log import TransparencyLog, key_in_force
from sandseal_signing.keys import PublicKey
from sandseal_signing.logentry import Role


def open_log(catalog: Catalog, keyring: Keyring) -> TransparencyLog:
    """The catalog's log under the keyring's log key; ends rotations that were broken off.

    Raises:
        StoreError: a key is not the one in force.
    """
    for role in Role:
        in_force = key_in_force(catalog.database, role)
        keyring.settle(role, in_force)
        if in_force not in (None, keyring.key(role).public):
            raise StoreError(
                f"the host's {role} key is not the one that its log names", hint="put the key back from a copy"
            )
    log = TransparencyLog(catalog, keyring.key(Role.LOG))
    _publish(log, keyring)
    return log


def rotate(log: TransparencyLog, keyring: Keyring, role: Role, actor: str) -> PublicKey:
    """Replace one of the host's keys by a new one, which the log names first; the new public key."""
    old, new = keyring.key(role), keyring.successor(role)
    log.rotate(role, old, new, actor)
    keyring.settle(role, new.public)
    _publish(log, keyring)
    return new.public


def _publish(log: TransparencyLog, keyring: Keyring) -> None:
    keyring.publish(Role.LOG, log.verifier.render())
    keyring.publish(Role.RECEIPT, keyring.key(Role.RECEIPT).public.inline)
