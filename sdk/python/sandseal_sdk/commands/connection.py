"""How commands reach a host."""

from typing import Annotated

import typer

from sandseal_sdk.client import Client
from sandseal_sdk.hosts.contexts import current_context

ContextName = Annotated[str, typer.Option("--context", help="A name given to `sandseal login`.")]


def connect(context: str) -> Client:
    """A client of the host that a context names.

    Raises:
        NotLoggedIn: no host is known under that name.
        TlsFilesInvalid: a certificate or key that it names cannot be used.
    """
    found = current_context(context)
    return Client(found.url, found.token, tls=found.tls)
