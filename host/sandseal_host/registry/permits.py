"""Downgrade permits that were brought: each lets one bundle in below its name's newest version, once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.tables import BundleRow, NameRow, PermitRow
from sandseal_signing.digest import Digest
from sandseal_signing.errors import PolicyRefused, SigningError
from sandseal_signing.permit import Permit, check_permit, read_permit
from sandseal_signing.trust import TrustPolicy


@dataclass(frozen=True, slots=True)
class KeptPermit:
    """A permit that the host has.

    Args:
        permit: what its holders signed.
        actor: who brought it.
        at: when it was brought.
        used_at: when it let its bundle in; None while it has not.
        problem: why it would let nothing in now; None when it would.
    """

    permit: Permit
    actor: str
    at: datetime
    used_at: datetime | None
    problem: str | None


class Permits:
    """The permits in the catalog; thread-safe. A used one is never forgotten, so that it cannot come again.

    Args:
        catalog: keeps them, and uses them up as it adds a bundle.
        policy: returns the trust policy in force.

    Raises:
        StoreError: the catalog cannot be used; so from every method.
    """

    def __init__(self, catalog: Catalog, policy: Callable[[], TrustPolicy]) -> None:
        self._database, self._policy = catalog.database, policy

    def add(self, envelope: bytes, actor: str) -> KeptPermit:
        """Keep a permit until its bundle comes; the same one again brings other signatures for it.

        Raises:
            LimitExceeded, JsonInvalid, EnvelopeInvalid, PermitInvalid, SignatureInvalid: see `read_permit`,
                `check_permit`.
            PolicyRefused: too few of the rule's holders signed; or it has expired, was used, or does not lead away
                from the bundle accepted last under its name; or its bundle is accepted already.
        """
        _, permit = read_permit(envelope)
        policy = self._policy()  # before the transaction: a policy that changed is itself written down
        with self._database.writing() as session:
            row = session.get(PermitRow, permit.id.hex) or _row(permit, actor)
            row.envelope = envelope
            _check(session, row, policy)
            if session.get(BundleRow, permit.target.hex):
                raise PolicyRefused(
                    f"bundle {permit.target} is accepted already, and needs no permit",
                    hint="`sandseal load NAME --version N` serves any accepted version",
                )
            session.add(row)
            return _kept(session, row, policy)

    def valid(self, bundle_id: Digest, name: str) -> Digest | None:
        """The id of a permit that lets this bundle in now under this name; None when there is none."""
        kept = self._find(PermitRow.target == bundle_id.hex)
        return next((one.permit.id for one in kept if one.problem is None and one.permit.name == name), None)

    def all(self) -> tuple[KeptPermit, ...]:
        """Every permit, oldest first."""
        return self._find()

    def _find(self, *where: ColumnElement[bool]) -> tuple[KeptPermit, ...]:
        query = select(PermitRow).where(*where).order_by(PermitRow.at, PermitRow.id)
        policy = self._policy()
        with self._database.reading() as session:
            return tuple(_kept(session, row, policy) for row in session.scalars(query))


def _kept(session: Session, row: PermitRow, policy: TrustPolicy) -> KeptPermit:
    try:
        _check(session, row, policy)
        problem = None
    except SigningError as error:
        problem = error.message
    return KeptPermit(read_permit(row.envelope)[1], row.brought_by, row.at, row.used_at, problem)


def _check(session: Session, row: PermitRow, policy: TrustPolicy) -> None:
    """Check that a permit lets its bundle in now.

    Raises:
        SigningError: it does not.
    """
    if row.used_at is not None:
        raise PolicyRefused("the permit was used", hint="the holders sign another one, with a nonce of its own")
    document, permit = read_permit(row.envelope)
    check_permit(document, policy, datetime.now(UTC))
    mark = session.get(NameRow, permit.name)
    if mark is None or mark.bundle != permit.source.hex:
        raise PolicyRefused(f"bundle {permit.source} is not the one accepted last under {permit.name!r}")


def _row(permit: Permit, actor: str) -> PermitRow:
    now = datetime.now(UTC)
    return PermitRow(
        id=permit.id.hex, source=permit.source.hex, target=permit.target.hex, brought_by=actor, at=now, used_at=None
    )
