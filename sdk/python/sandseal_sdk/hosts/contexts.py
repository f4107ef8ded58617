"""Which host to talk to: named contexts kept by `sandseal login`, overridden by SANDSEAL_URL and SANDSEAL_TOKEN."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from sandseal_sdk.errors import NotLoggedIn


@dataclass(frozen=True, slots=True)
class Context:
    """A host's address and the token to use there; the token is None for anonymous calls."""

    url: str
    token: str | None


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
    if url := os.environ.get("SANDSEAL_URL"):
        return Context(url, os.environ.get("SANDSEAL_TOKEN"))
    saved = _read().get(name)
    if saved is None or not saved.get("url"):
        raise NotLoggedIn(f"no host is known under the name {name!r}")
    return Context(str(saved["url"]), os.environ.get("SANDSEAL_TOKEN") or saved.get("token"))
