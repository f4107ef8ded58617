"""The access file: what the operator says about tenants, beside the tokens."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandseal_host.errors import SettingsInvalid
from sandseal_host.registry.tokens import Rate
from sandseal_signing.schema import Node

_MAX_RATE = 1e9


@dataclass(frozen=True, slots=True)
class Access:
    """What the file says; host/README.md shows a complete one.

    Args:
        tenants: how much inference all who belong to a tenant may ask for together, where that is limited.
    """

    tenants: Mapping[str, Rate] = field(default_factory=dict)


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
    return parse_access(document)


def parse_access(document: dict[str, Any]) -> Access:
    """What a parsed file says.

    Raises:
        SettingsInvalid: the message names the place.
    """
    root = Node(document, "access", SettingsInvalid)
    access = Access(_tenants(root.child("tenants", None)))
    root.close()
    return access


def _tenants(node: Node | None) -> Mapping[str, Rate]:
    return {} if node is None else {tenant: _rate(node.child(tenant)) for tenant in node.rest()}


def _rate(node: Node) -> Rate:
    rate = Rate(_per_second(node, "requests_s"), _per_second(node, "rows_s"))
    node.close()
    return rate


def _per_second(node: Node, name: str) -> float | None:
    value = node.take(name, None)
    if value is not None and (type(value) not in (int, float) or not 0 < value <= _MAX_RATE):
        node.fail(name, f"must be a number above 0, not {value!r}")
    return None if value is None else float(value)
