"""Build, test, seal, push and call: what publishers, plugin authors and clients use.

build, harness, scaffold, pytest_plugin     for authors of plugins
publish, importing, first_party, packages   for publishers of models
client, async_client                        for whoever calls a host
cli, commands, console                      the `sandseal` command over all of it

Below them, from what is used to what uses it: plugin, toolchains, build; then testing, bundles and hosts.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandseal_sdk.async_client import AsyncClient as AsyncClient
    from sandseal_sdk.client import Client as Client
    from sandseal_sdk.hosts.patience import Patience as Patience
    from sandseal_sdk.hosts.tls import Tls as Tls

__all__ = ["AsyncClient", "Client", "Patience", "Tls"]

_HOMES = {"AsyncClient": "async_client", "Client": "client", "Patience": "hosts.patience", "Tls": "hosts.tls"}


def __getattr__(name: str) -> Any:
    """Import the client when it is asked for: the command and pytest import this package for other things."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
