"""One request to a host, before any connection has seen it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from sandseal_sdk.hosts.target import Content


@dataclass(frozen=True, slots=True)
class Call:
    """A request.

    Args:
        path: with its query.
        accept: statuses that are no refusals, besides those of success.
    """

    method: str
    path: str
    content: Content = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    accept: tuple[int, ...] = ()

    @classmethod
    def document(cls, method: str, path: str, document: Any) -> "Call":
        """A request with a JSON body."""
        return cls(method, path, json.dumps(document).encode(), {"Content-Type": "application/json"})


def model_path(model: str, version: int | None = None) -> str:
    """Where the protocol has a model."""
    return f"/v2/models/{quoted(model)}" + (f"/versions/{version}" if version else "")


def quoted(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """A path with its query."""
    return f"{path}?{urlencode(query)}" if query else path
