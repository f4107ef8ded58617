"""The doorkeeper: looks at every request's bearer token."""

import asyncio
import hashlib
import math
from collections import OrderedDict
from dataclasses import replace
from time import monotonic

from sandseal_host.api.audit import note_stranger
from sandseal_host.api.grant import ANONYMOUS, Grant
from sandseal_host.api.pace import Paces
from sandseal_host.api.ports import Tokens
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.throttle import FailureThrottle
from sandseal_host.api.tls import Names
from sandseal_host.errors import NotAuthenticated

_MAX_KNOWN = 4096


class Doorkeeper:
    """Turns the Authorization header of a request into a grant.

    A checked token is believed for a short time, so that the hot path costs a look into a table; its secret is not
    kept in it, only a hash. Wrong tokens count against the address that sends them; past the limit only tokens that
    were good before are looked at.

    Args:
        tokens: who knows the tokens; may block.
        settings: whether anonymous requests may infer, and how long a check holds.
    """

    def __init__(self, tokens: Tokens, settings: ApiSettings) -> None:
        self._tokens = tokens
        self._cache_s = settings.token_cache_s
        self._throttle = FailureThrottle(settings.auth_failures, 60.0)
        self._paces = Paces(settings.access.tenants)
        self._guest = self._paced(ANONYMOUS) if settings.anonymous_inference else None
        self._certified = {name: self._paced(grant) for name, grant in settings.access.certificates.items()}
        self._known: OrderedDict[bytes, tuple[Grant, float]] = OrderedDict()
        self._checks: dict[bytes, asyncio.Future[Grant]] = {}

    def recall(self, key: bytes | None, certificate: Names = ()) -> Grant | None:
        """The grant of a token that was checked a moment ago, or else of a client's certificate, without waiting.

        Args:
            key: of the token, see `token_key`.
            certificate: the client's.
        """
        if key is None:
            named = (self._certified[name] for name in certificate if name in self._certified)
            return next(named, self._guest)
        grant, until = self._known.get(key, (None, -math.inf))
        return grant if monotonic() < until else None

    async def admit(self, authorization: bytes | None, address: str, certificate: Names = ()) -> Grant:
        """The grant of whoever sends this header from this address, or has this certificate and sends none.

        Raises:
            NotAuthenticated: no token where one is needed, or one that nobody issued.
            RateLimited: too many wrong tokens came from this address.
        """
        key = token_key(authorization)
        if (grant := self.recall(key, certificate)) is not None:
            return grant
        if key is None or authorization is None:
            raise NotAuthenticated("this host wants a token")
        if key not in self._known:
            self._throttle.check(address)
        try:
            return await self._check(key, _secret(authorization))
        except NotAuthenticated:
            self._known.pop(key, None)
            self._throttle.failed(address)
            note_stranger(address)
            raise

    async def _check(self, key: bytes, secret: str) -> Grant:
        """Ask for a token; who asks for the same one meanwhile waits for the same answer."""
        check = self._checks.get(key)
        if check is None:
            check = self._checks[key] = asyncio.ensure_future(asyncio.to_thread(self._tokens.check, secret))
            check.add_done_callback(lambda _: self._checks.pop(key))
        grant = self._paced(await asyncio.shield(check))
        self._remember(key, grant)
        return grant

    def _paced(self, grant: Grant) -> Grant:
        pace = self._paces.of(grant.id, grant.name, grant.rate, grant.tenant)
        return grant if pace is None else replace(grant, pace=pace)

    def forget(self, token_id: str) -> None:
        """Ask again about every token at its next use, since this one was revoked."""
        self._paces.forget(token_id)
        for key, (grant, _) in self._known.items():
            self._known[key] = (grant, -math.inf)

    def _remember(self, key: bytes, grant: Grant) -> None:
        self._known[key] = (grant, monotonic() + self._cache_s)
        self._known.move_to_end(key)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)


def token_key(authorization: bytes | None) -> bytes | None:
    """What the doorkeeper knows the token in this header by; None without one."""
    return None if authorization is None else hashlib.sha256(authorization).digest()


def _secret(authorization: bytes) -> str:
    scheme, _, secret = authorization.partition(b" ")
    if scheme.lower() != b"bearer" or not secret.strip():
        raise NotAuthenticated("the Authorization header is not 'Bearer <token>'")
    return secret.strip().decode("latin-1")
