"""Bearer tokens: who may call, publish, operate; of a secret only its SHA-256 is kept."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from sandseal_host.errors import StoreError
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.files import replace_private
from sandseal_host.registry.tables import TokenRow

MOST_URGENT = "realtime"  # of serving's classes: a ceiling that nothing reaches above
_PREFIX = "sst_"
_OPERATOR = "operator"


class Scope(StrEnum):
    """What a token may be used for."""

    INFER = "infer"
    PUBLISH = "publish"
    OPERATE = "operate"
    TRUST = "trust"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Rate:
    """How much inference may be asked for in a second; true where anything limits it.

    Args:
        requests_s: requests; None for as many as come.
        rows_s: rows of their batch axes; None for as many as come.
    """

    requests_s: float | None = None
    rows_s: float | None = None

    def __bool__(self) -> bool:
        return self.requests_s is not None or self.rows_s is not None

    def within(self, other: "Rate") -> bool:
        """Whether this allows no more than another one."""
        pairs = ((self.requests_s, other.requests_s), (self.rows_s, other.rows_s))
        return all(theirs is None or (ours is not None and ours <= theirs) for ours, theirs in pairs)


UNLIMITED = Rate()
LEAST_RATE, MOST_RATE = 1e-6, 1e9
"""What a limit may be, a second: the least is one in eleven days."""


@dataclass(frozen=True, slots=True)
class Token:
    """An issued token, without its secret.

    Args:
        scopes: what it may be used for.
        tenant: whose requests these are, for quotas.
        models: name pattern of the models that it may see (`*` and `?` as in a shell).
        ceiling: the most urgent service class that its requests get.
        rate: how much inference it may ask for.
        expires: from when on it is worth nothing; None for never.
    """

    id: str
    name: str
    scopes: frozenset[Scope]
    tenant: str
    models: str
    created: datetime
    ceiling: str = MOST_URGENT
    rate: Rate = UNLIMITED
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token and its secret, which nobody can ask for again."""

    token: Token
    secret: str


class Tokens:
    """The catalog's tokens; every method blocks on the database, so callers keep a checked token for a moment."""

    def __init__(self, catalog: Catalog) -> None:
        self._database = catalog.database

    def check(self, secret: str) -> Token | None:
        """The token of this secret, unless revoked or expired.

        What is looked up is the SHA-256 of 32 random bytes, so the time it takes tells nothing about another secret.
        """
        with self._database.reading() as session:
            row = session.scalar(select(TokenRow).where(TokenRow.digest == _digest(secret)))
        if row is None or (row.expires is not None and row.expires <= datetime.now(UTC)):
            return None
        return _token(row)

    def list(self) -> tuple[Token, ...]:
        """Every token, expired ones too, oldest first."""
        with self._database.reading() as session:
            return tuple(map(_token, session.scalars(select(TokenRow).order_by(TokenRow.created, TokenRow.id))))

    def issue(
        self,
        name: str,
        scopes: Iterable[Scope],
        *,
        tenant: str = "default",
        models: str = "*",
        ceiling: str = MOST_URGENT,
        rate: Rate = UNLIMITED,
        expires: datetime | None = None,
    ) -> Issued:
        """Make a token; see `Token` for what it is given."""
        issued = _new(name, scopes, tenant, models, ceiling, rate, expires)
        with self._database.writing() as session:
            session.add(_row(issued))
        return issued

    def revoke(self, token_id: str) -> bool:
        """Delete a token; False if there was none."""
        with self._database.writing() as session:
            row = session.get(TokenRow, token_id)
            if row is not None:
                session.delete(row)
            return row is not None

    def first_start(self, path: Path) -> Path | None:
        """If there is no token at all, make an operator's and write its secret to `path`, 0600.

        Returns:
            `path`, or None when a token exists.

        Raises:
            StoreError: the file cannot be written; no token exists then either.
        """
        with self._database.writing() as session:
            if session.scalar(select(TokenRow.id).limit(1)) is not None:
                return None
            _operator(session, path)
        return path

    def reset(self, path: Path) -> Path:
        """Revoke the operator tokens of `first_start` and `reset`, make a new one and write its secret to `path`, 0600.

        Raises:
            StoreError: the file cannot be written; the tokens stay as they are.
        """
        with self._database.writing() as session:
            session.execute(delete(TokenRow).where(TokenRow.name == _OPERATOR))
            _operator(session, path)
        return path


def _operator(session: Session, path: Path) -> None:
    """Put an operator's token into the transaction; the file comes first: without a row it is worth nothing."""
    issued = _new(_OPERATOR, Scope)
    try:
        replace_private(path, f"{issued.secret}\n".encode())
    except OSError as error:
        raise StoreError(f"cannot write the operator's token to {path}: {error.strerror}") from error
    session.add(_row(issued))


def _new(
    name: str,
    scopes: Iterable[Scope],
    tenant: str = "default",
    models: str = "*",
    ceiling: str = MOST_URGENT,
    rate: Rate = UNLIMITED,
    expires: datetime | None = None,
) -> Issued:
    now = datetime.now(UTC)
    token = Token(secrets.token_hex(8), name, frozenset(scopes), tenant, models, now, ceiling, rate, expires)
    return Issued(token, _PREFIX + secrets.token_urlsafe(32))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _row(issued: Issued) -> TokenRow:
    token = issued.token
    return TokenRow(
        id=token.id,
        digest=_digest(issued.secret),
        name=token.name,
        scopes=sorted(token.scopes),
        tenant=token.tenant,
        models=token.models,
        ceiling=token.ceiling,
        requests_s=token.rate.requests_s,
        rows_s=token.rate.rows_s,
        created=token.created,
        expires=token.expires,
    )


def _token(row: TokenRow) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        scopes=frozenset(map(Scope, row.scopes)),
        tenant=row.tenant,
        models=row.models,
        ceiling=row.ceiling,
        rate=Rate(row.requests_s, row.rows_s),
        created=row.created,
        expires=row.expires,
    )
