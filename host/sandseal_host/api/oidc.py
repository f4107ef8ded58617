"""Tokens of an identity provider: JWTs (RFC 7519), verified with its published keys, which lie in a file."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from sandseal_host.api.grant import Grant
from sandseal_host.errors import NotAuthenticated, SettingsInvalid
from sandseal_host.observe.logs import get_logger
from sandseal_host.registry.tokens import Scope
from sandseal_host.serving.request import REALTIME, ServiceClass

# By key type (and curve): what a key of it signs with. Nothing symmetric: a public key must never be a secret.
ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")
_LEEWAY_S = 10.0
_REQUIRED = ("exp", "iss", "aud", "sub")


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """What the access file says of an identity provider.

    Args:
        issuer: its tokens' `iss`.
        audience: what their `aud` has to name.
        jwks: file with its keys, as its `jwks_uri` serves them; read again when it changes.
        scopes: what a value of `scope_claim` entitles to.
        scope_claim: a list, or words with spaces between them.
        tenant_claim: whose share a token uses; None for `tenant`, whoever it is.
        tenant: where no claim says it.
        models: pattern of the models that tokens see; `{tenant}` stands for theirs.
        ceiling: the most urgent class that their requests get.
    """

    issuer: str
    audience: str
    jwks: Path
    scopes: Mapping[str, tuple[Scope, ...]]
    scope_claim: str = "scope"
    tenant_claim: str | None = None
    tenant: str = "default"
    models: str = "*"
    ceiling: ServiceClass = REALTIME


class IdentityProvider:
    """Checks the tokens of one provider; called on threads.

    Args:
        settings: of the access file.

    Raises:
        SettingsInvalid: its keys cannot be read.
    """

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._changed = _changed(settings.jwks)
        self._keys = _read_keys(settings.jwks)

    def check(self, secret: str) -> Grant:
        """What the bearer of a token may do.

        Raises:
            NotAuthenticated: it is not signed by the provider for this host, or not valid now.
        """
        self._refresh()
        try:
            key = self._keys[jwt.get_unverified_header(secret)["kid"]]
            claims = jwt.decode(
                secret,
                key,
                algorithms=[key.algorithm_name],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=_LEEWAY_S,
                options={"require": list(_REQUIRED), "strict_aud": False},
            )
        except (PyJWTError, KeyError, TypeError, ValueError) as error:
            raise NotAuthenticated(f"the provider's token is not valid ({type(error).__name__})") from None
        return self._grant(claims)

    def _grant(self, claims: Mapping[str, Any]) -> Grant:
        settings, subject = self._settings, claims["sub"]
        tenant = settings.tenant if settings.tenant_claim is None else claims.get(settings.tenant_claim)
        if not isinstance(tenant, str) or not _TENANT.match(tenant):
            raise NotAuthenticated(f"the provider's token has no {settings.tenant_claim!r} that names a tenant")
        said = claims.get(settings.scope_claim, ())
        words = said.split() if isinstance(said, str) else said if isinstance(said, list) else ()
        scopes = {scope for word in words if isinstance(word, str) for scope in settings.scopes.get(word, ())}
        models = settings.models.replace("{tenant}", tenant)
        return Grant(subject[:128], frozenset(scopes), tenant, models, f"oidc:{subject}", settings.ceiling)

    def _refresh(self) -> None:
        """Read the keys again if their file changed; a file with a fault changes nothing."""
        changed = _changed(self._settings.jwks)
        if changed == self._changed:
            return
        self._changed = changed
        try:
            self._keys = _read_keys(self._settings.jwks)
        except SettingsInvalid as error:
            get_logger("sandseal.api").error("the provider's keys stay as they were", reason=error.message)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _read_keys(path: Path) -> Mapping[str, jwt.PyJWK]:
    """The keys by their ids."""
    keys: dict[str, jwt.PyJWK] = {}
    try:
        for entry in json.loads(path.read_bytes())["keys"]:
            if entry.get("use", "sig") != "sig":
                continue
            key, kid = jwt.PyJWK(entry), entry["kid"]
            if key.algorithm_name not in ALGORITHMS.get(entry["kty"], ()):
                raise ValueError(f"key {kid!r} is for {key.algorithm_name}")
            if kid in keys:
                raise ValueError(f"two keys are called {kid!r}")
            keys[kid] = key
    except (OSError, PyJWTError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        hint = "save what the provider's jwks_uri serves; each key needs a kid, and only public keys are taken"
        raise SettingsInvalid(f"the keys in {path} cannot be used: {error!r}", hint=hint) from None
    return keys
