"""Which host to talk to: named contexts kept by `sandseal login`, overridden by SANDSEAL_* variables."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from sandseal_sdk.errors import NotLoggedIn
from sandseal_sdk.hosts.tls import Tls

_VARIABLES = {
    "token": "SANDSEAL_TOKEN", "ca": "SANDSEAL_CA", "certificate": "SANDSEAL_CLIENT_CERT", "key": "SANDSEAL_CLIENT_KEY",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Context:
    """A host's address, and what to be let in with.

    Args:
        token: None for anonymous calls, and where a certificate says who calls.
        ca, certificate, key: paths of the files that `Tls` takes.
    """

    url: str
    token: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @property
    def tls(self) -> Tls:
        """The files for https."""
        return Tls(*(Path(path) if path else None for path in (self.ca, self.certificate, self.key)))


def _path() -> Path:
    return Path(typer.get_app_dir("sandseal")) / "contexts.json"


def _read() -> dict[str, dict[str, str | None]]:
    try:
        contexts: dict[str, dict[str, str | None]] = json.loads(_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return contexts


def save_context(name: str, context: Context) -> Path:
    """Keep a context under `name` in a file that only its owner may read."""
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**_read(), name: asdict(context)}, indent=2)
    descriptor = os.open(path.with_suffix(".new"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path.with_suffix(".new").replace(path)


def current_context(name: str = "default") -> Context:
    """The context to use: the environment's, else the saved one of this name.

    Raises:
        NotLoggedIn: neither is there.
    """
    given = {field: os.environ.get(variable) for field, variable in _VARIABLES.items()}
    if url := os.environ.get("SANDSEAL_URL"):
        return Context(url, **given)
    saved = _read().get(name)
    if saved is None or not saved.get("url"):
        raise NotLoggedIn(f"no host is known under the name {name!r}")
    return Context(str(saved["url"]), **{field: value or saved.get(field) for field, value in given.items()})
