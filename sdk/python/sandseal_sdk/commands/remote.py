"""For talking to a host: login, push, models, load, unload, queue, record, token."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from sandseal_sdk.client import Client
from sandseal_sdk.commands.connection import ContextName, connect
from sandseal_sdk.commands.log import STATE
from sandseal_sdk.console import byte_progress, note, out, table
from sandseal_sdk.hosts import audit
from sandseal_sdk.hosts.contexts import Context, save_context
from sandseal_sdk.hosts.transfer import LARGE
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import Envelope, parse_signatures
from sandseal_signing.pack import Progress
from sandseal_signing.seal import SealReader

Model = Annotated[str, typer.Argument(help="The model's name.")]
Version = Annotated[int | None, typer.Option(help="A version; the one that serves when absent.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (login, push, models, load, unload, queue, record):
        app.command()(command)
    tokens = typer.Typer(help="Issue, list and revoke a host's tokens.", no_args_is_help=True)
    tokens.command("add")(token_add)
    tokens.command("list")(token_list)
    tokens.command("revoke")(token_revoke)
    app.add_typer(tokens, name="token")


def login(
    url: Annotated[str, typer.Argument(help="The host's address, such as http://127.0.0.1:8000.")],
    token_file: Annotated[
        Path | None, typer.Option(exists=True, help="File with the token; asked when absent.")
    ] = None,
    ca: Annotated[Path | None, typer.Option(exists=True, help="Who issued the host's certificate, in PEM.")] = None,
    cert: Annotated[
        Path | None, typer.Option(exists=True, help="A certificate to come in with, no token then.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(exists=True, help="Its key, where the certificate's file has none.")
    ] = None,
    context: ContextName = "default",
) -> None:
    """Remember a host and a token, after checking that it answers."""
    token = None
    if token_file or not cert:
        token = (token_file.read_text() if token_file else typer.prompt("Token", hide_input=True, err=True)).strip()
    files = [str(path.absolute()) if path else None for path in (ca, cert, key)]
    found = Context(url, token, *files)
    with Client(url, token, tls=found.tls) as client:
        client.models()
    note(f"saved in {save_context(context, found)}")


def push(
    seal: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A .seal file, or a detached .sig.")],
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume/--whole",
            help="File by file, going on where an earlier push ended, or in one stream; by size when absent.",
        ),
    ] = None,
    permit: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="From `sandseal trust permit`, for a lower version."),
    ] = None,
    context: ContextName = "default",
) -> None:
    """Upload a .seal file, or a detached .sig; says who signed and what the policy decided, or exactly why not."""
    with connect(context) as client, byte_progress("uploading", seal.stat().st_size) as advance:
        if permit:
            client.permit(permit.read_bytes())
        answer = _push_signature(client, seal) if seal.suffix == ".sig" else _push(client, seal, resume, advance)
    if answer["state"] == "pending":
        note(answer["detail"])
        out.print(f"{answer['name']} version {answer['version']} pending  bundle {answer['id']}")
        return
    note(f"signed by {', '.join(answer['holders'])}; rule {answer['rule']} decided")
    note(audit.check_acceptance(audit.read_state(STATE), answer, _bundle_id(seal)))
    out.print(f"{answer['name']} version {answer['version']} {answer['state']}  bundle {answer['id']}")


def models(context: ContextName = "default") -> None:
    """List the models that the token may see."""
    with connect(context) as client:
        found = client.models()
    rows = [[m["name"], str(m["version"]), m["state"], m.get("reason", "")] for m in found]
    table("", ["model", "version", "state", "reason"], rows)


def load(
    model: Model,
    version: Annotated[int | None, typer.Option(help="A version; all that the host's policy says when absent.")] = None,
    context: ContextName = "default",
) -> None:
    """Serve an accepted version; returns when it is ready."""
    with connect(context) as client:
        client.load(model, version)
    note(f"{model} is ready")


def unload(model: Model, context: ContextName = "default") -> None:
    """Stop serving a model; returns when its memory is back."""
    with connect(context) as client:
        client.unload(model)
    note(f"{model} is unloaded")


def queue(model: Model, version: Version = None, context: ContextName = "default") -> None:
    """Show what waits for a model, and why its last batches were cut: full, delay, deadline, bucket or idle.

    A model that generates text has no batches.
    """
    with connect(context) as client:
        found = client.queue(model, version)
    waiting = ", ".join(f"{count} {name}" for name, count in found["waiting"].items() if count) or "nothing"
    bounds = f" ({found['max_rows']} rows, {found['max_delay_us']} us, {found['instances']} at once)"
    shown = bounds if found["batches"] else ""
    out.print(f"{model} version {found['version']}{shown}: {waiting} waiting, {found['running']} running", markup=False)
    if not found["batches"]:
        return
    rows = [[c["reason"], str(c["requests"]), str(c["rows"]), f"{c['waited_ms']:g}"] for c in found["batches"]]
    table("", ["cut", "requests", "rows", "oldest waited ms"], rows)


def record(
    model: Model,
    seconds: Annotated[float, typer.Option(min=0, max=3600, help="How long.")] = 60.0,
    output: Annotated[Path, typer.Option("--out", "-o", help="The profile to write, for `sandseal tune`.")] = Path(
        "profile.json"
    ),
    version: Version = None,
    context: ContextName = "default",
) -> None:
    """Record when requests arrive at a model, and in which shapes: never what they hold, or whose they are."""
    note(f"recording {model} for {seconds:g} s")
    with connect(context) as client:
        profile = client.record(model, seconds, version)
    output.write_text(json.dumps(profile), encoding="utf-8")
    out.print(f"{output}  {len(profile['arrivals'])} requests in {len(profile['shapes'])} kinds of shapes")


def token_add(
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    scope: Annotated[list[str], typer.Option(help="infer, publish, operate, trust or audit; several allowed.")],
    models: Annotated[str, typer.Option(help="Pattern of the models that it reaches.")] = "*",
    tenant: Annotated[str, typer.Option(help="Whose share its requests use.")] = "default",
    ceiling: Annotated[str, typer.Option(help="Most urgent class of its requests: realtime, standard, batch.")] = "",
    requests_s: Annotated[float | None, typer.Option(help="Inference requests a second.")] = None,
    rows_s: Annotated[float | None, typer.Option(help="Rows of such requests a second.")] = None,
    days: Annotated[
        float | None, typer.Option(min=0, max=36_500, help="Days until it expires; never when absent.")
    ] = None,
    context: ContextName = "default",
) -> None:
    """Issue a token; its secret is printed this once."""
    expires = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    limits = {"ceiling": ceiling or None, "requests_s": requests_s, "rows_s": rows_s, "expires": expires}
    given = {limit: value for limit, value in limits.items() if value is not None}
    with connect(context) as client:
        out.print(client.issue_token(name, scope, models=models, tenant=tenant, **given)["secret"])


def token_list(context: ContextName = "default") -> None:
    """List tokens, without their secrets."""
    with connect(context) as client:
        rows = [
            [
                t["id"],
                t["name"],
                " ".join(t["scopes"]),
                t["models"],
                t["tenant"],
                t["ceiling"],
                _rate(t),
                t["expires"] or "",
            ]
            for t in client.tokens()
        ]
    table("", ["id", "name", "scopes", "models", "tenant", "ceiling", "a second", "expires"], rows)


def token_revoke(token_id: str, context: ContextName = "default") -> None:
    """End a token at once."""
    with connect(context) as client:
        client.revoke_token(token_id)
    note(f"token {token_id} is revoked")


def _rate(token: dict[str, Any]) -> str:
    limits = [(token["requests_s"], "requests"), (token["rows_s"], "rows")]
    return ", ".join(f"{limit:g} {what}" for limit, what in limits if limit is not None)


def _push(client: Client, seal: Path, resume: bool | None, advance: Progress) -> dict[str, Any]:
    large = seal.stat().st_size >= LARGE
    return client.push_offer(seal, advance) if resume or (resume is None and large) else client.push(seal, advance)


def _push_signature(client: Client, path: Path) -> dict[str, Any]:
    """Send a detached signature to the bundle that it is over."""
    return client.sign(_bundle_id(path).hex, path.read_bytes())


def _bundle_id(path: Path) -> Digest:
    """The id of the bundle that a .seal file holds, or that a .sig file is over, by its own bytes."""
    if path.suffix == ".sig":
        return Digest.of(Envelope.parse(path.read_bytes(), str(path)).payload)
    with path.open("rb", buffering=0) as file:
        return Digest.of(parse_signatures(SealReader(file).signatures())[0].payload)
