"""The access file: what the operator says about tenants, beside the tokens."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandseal_host.api.grant import Grant
from sandseal_host.api.oidc import OidcSettings
from sandseal_host.errors import SettingsInvalid
from sandseal_host.registry.tokens import LEAST_RATE, MOST_RATE, MOST_URGENT, Rate, Scope
from sandseal_host.serving.request import CLASSES, ServiceClass
from sandseal_signing.schema import Node

_SCOPES = tuple(map(str, Scope))


@dataclass(frozen=True, slots=True)
class Access:
    """What the file says; host/README.md shows a complete one.

    Args:
        tenants: how much inference all who belong to a tenant may ask for together, where that is limited.
        certificates: what a client may do that sends no token but has a certificate of this name.
        oidc: whose tokens count beside those that the host issues.
    """

    tenants: Mapping[str, Rate] = field(default_factory=dict)
    certificates: Mapping[str, Grant] = field(default_factory=dict)
    oidc: OidcSettings | None = None


def read_access(path: Path | None) -> Access:
    """What the file says; without one, nothing.

    Raises:
        SettingsInvalid: it cannot be read, or is not valid.
    """
    if path is None:
        return Access()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsInvalid(f"cannot read the access file {path}: {error}", hint="see SANDSEAL_ACCESS") from None
    return parse_access(document, path.parent)


def parse_access(document: dict[str, Any], folder: Path = Path()) -> Access:
    """What a parsed file says; the files that it names are relative to its folder.

    Raises:
        SettingsInvalid: the message names the place.
    """
    root = Node(document, "access", SettingsInvalid)
    access = Access(
        _tenants(root.child("tenants", None)),
        _certificates(root.child("certificates", None)),
        _oidc(root.child("oidc", None), folder),
    )
    root.close()
    return access


def _tenants(node: Node | None) -> Mapping[str, Rate]:
    return {} if node is None else {tenant: _rate(node.child(tenant)) for tenant in node.rest()}


def _certificates(node: Node | None) -> Mapping[str, Grant]:
    return {} if node is None else {name: _grant(name, node.child(name)) for name in node.rest()}


def _oidc(node: Node | None, folder: Path) -> OidcSettings | None:
    if node is None:
        return None
    scopes = node.child("scopes")
    settings = OidcSettings(
        node.text("issuer"),
        node.text("audience"),
        folder / node.text("jwks"),
        {word: _scopes(scopes, word) for word in scopes.rest()},
        node.text("scope_claim", "scope"),
        node.text("tenant_claim", None),
        node.text("tenant", "default"),
        node.text("models", "*"),
        _ceiling(node),
    )
    node.close()
    return settings


def _grant(name: str, node: Node) -> Grant:
    """A grant as a token has one, written down."""
    grant = Grant(
        name,
        frozenset(_scopes(node, "scopes")),
        node.text("tenant", "default"),
        node.text("models", "*"),
        f"certificate:{name}",
        _ceiling(node),
        Rate(_per_second(node, "requests_s"), _per_second(node, "rows_s")),
    )
    node.close()
    return grant


def _scopes(node: Node, name: str) -> tuple[Scope, ...]:
    return tuple(map(Scope, node.texts(name, valid=_SCOPES.__contains__, rule=f"scopes of {list(_SCOPES)}", least=1)))


def _ceiling(node: Node) -> ServiceClass:
    return CLASSES[node.text("ceiling", MOST_URGENT, valid=CLASSES.__contains__, rule=f"one of {list(CLASSES)}")]


def _rate(node: Node) -> Rate:
    rate = Rate(_per_second(node, "requests_s"), _per_second(node, "rows_s"))
    node.close()
    return rate


def _per_second(node: Node, name: str) -> float | None:
    value = node.take(name, None)
    if value is not None and (type(value) not in (int, float) or not LEAST_RATE <= value <= MOST_RATE):
        node.fail(name, f"must be a number from {LEAST_RATE} to {MOST_RATE}, not {value!r}")
    return None if value is None else float(value)
