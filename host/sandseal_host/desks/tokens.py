"""The registry's tokens as the edge speaks of them (api.ports.Tokens)."""

from collections.abc import Sequence
from datetime import datetime

from sandseal_host.api.grant import Grant
from sandseal_host.api.oidc import IdentityProvider
from sandseal_host.api.ports import TokenEntry
from sandseal_host.errors import NotAuthenticated
from sandseal_host.registry.tokens import Token, Tokens
from sandseal_host.serving.request import CLASSES


class TokenDesk:
    """Takes what is asked about tokens; called on worker threads.

    Args:
        tokens: those kept.
        provider: whose tokens count beside them.
    """

    def __init__(self, tokens: Tokens, provider: IdentityProvider | None = None) -> None:
        self._tokens, self._provider = tokens, provider

    def check(self, secret: str) -> Grant:
        """What the bearer may do.

        Raises:
            NotAuthenticated: nobody issued it, it was revoked, or it has expired.
        """
        if self._provider is not None and secret.count(".") == 2:  # ours have no dot, a JWT has two
            return self._provider.check(secret)
        token = self._tokens.check(secret)
        if token is None:
            raise NotAuthenticated("this token was never issued, was revoked, or has expired")
        ceiling = CLASSES[token.ceiling]
        return Grant(token.name, token.scopes, token.tenant, token.models, token.id, ceiling, token.rate)

    def issue(self, grant: Grant, expires: datetime | None) -> tuple[TokenEntry, str]:
        """Make a token; its secret is told this once."""
        issued = self._tokens.issue(
            grant.name,
            grant.scopes,
            tenant=grant.tenant,
            models=grant.models,
            ceiling=grant.ceiling.name,
            rate=grant.rate,
            expires=expires,
        )
        return _entry(issued.token), issued.secret

    def entries(self) -> Sequence[TokenEntry]:
        """Every token."""
        return [_entry(token) for token in self._tokens.list()]

    def revoke(self, token_id: str) -> bool:
        """Delete a token; False when there is none of this id."""
        return self._tokens.revoke(token_id)


def _entry(token: Token) -> TokenEntry:
    return TokenEntry(
        id=token.id,
        name=token.name,
        scopes=tuple(sorted(token.scopes)),
        tenant=token.tenant,
        models=token.models,
        ceiling=token.ceiling,
        requests_s=token.rate.requests_s,
        rows_s=token.rate.rows_s,
        created=token.created,
        expires=token.expires,
    )
