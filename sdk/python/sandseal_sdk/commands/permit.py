"""For publishers: trust permit, with which a rule's holders let a lower version in once."""

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from sandseal_sdk.commands.connection import ContextName, connect
from sandseal_sdk.commands.publishing import read_key
from sandseal_sdk.console import note, out
from sandseal_sdk.errors import BundleNotFound
from sandseal_signing.digest import Digest
from sandseal_signing.document import Document
from sandseal_signing.pack import read_seal
from sandseal_signing.permit import PERMIT_TYPE, Permit, read_permit


def permit(
    path: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The .seal to let in, or a .permit.")],
    key: Annotated[list[Path], typer.Option(help="A key that the rule names; may be given several times.")],
    source: Annotated[
        str | None, typer.Option("--from", help="Id of the bundle accepted last; asks the host when absent.")
    ] = None,
    days: Annotated[float, typer.Option(min=0, max=366, help="How long the permit lasts.")] = 7.0,
    output: Annotated[Path | None, typer.Option("--out", "-o", help="The permit; beside the file.")] = None,
    context: ContextName = "default",
) -> None:
    """Sign a permit for a version below the newest, or add signatures to one; `push --permit` brings it."""
    written = output or path.with_suffix(".permit")
    if path.suffix == ".permit":
        document, made = read_permit(path.read_bytes())
    else:
        made = _made(path, source, timedelta(days=days), context)
        document = Document(made.render(), PERMIT_TYPE)
    written.write_bytes(document.sign([read_key(one) for one in key]).render())
    note(f"{made.name}: bundle {made.target} may follow {made.source}, once, until {made.expires:%Y-%m-%d %H:%M} UTC")
    out.print(str(written))


def _made(seal: Path, source: str | None, life: timedelta, context: str) -> Permit:
    with seal.open("rb", buffering=0) as file:
        contents = read_seal(file)
    name = contents.manifest.name
    last = Digest(source) if source else _accepted_last(name, context)
    return Permit(name, last, contents.id, datetime.now(UTC) + life, secrets.token_urlsafe(16))


def _accepted_last(name: str, context: str) -> Digest:
    """What the host took in last under a name."""
    with connect(context) as client:
        times = {b["accepted_at"]: b["id"] for b in client.bundles() if b["name"] == name and b["accepted_at"]}
    if not times:
        raise BundleNotFound(f"the host has no accepted bundle of {name!r}", hint="name it with --from")
    return Digest(times[max(times, key=datetime.fromisoformat)])
