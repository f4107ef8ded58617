"""For auditors: verify and watch a host's transparency log."""

import time
from pathlib import Path
from typing import Annotated

import typer

from sandseal_sdk.commands.connection import ContextName, connect
from sandseal_sdk.console import note, out
from sandseal_sdk.errors import HostUnreachable
from sandseal_sdk.hosts import audit
from sandseal_sdk.hosts.log_client import LogClient
from sandseal_signing.auditor import BLIND_SPOTS, AuditState
from sandseal_signing.errors import LogInconsistent
from sandseal_signing.logentry import LogEntry, render_time
from sandseal_signing.note import VerifierKey

STATE = Path(typer.get_app_dir("sandseal")) / "audit.json"

Key = Annotated[str | None, typer.Option(help="The log's verifier key or a file of it; the first time only.")]
State = Annotated[Path, typer.Option(help="What this auditor has seen so far.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    log = typer.Typer(help="Audit a host's transparency log.", no_args_is_help=True)
    for command in (verify, watch, key):
        log.command()(command)
    app.add_typer(log, name="log")


def verify(key: Key = None, state: State = STATE, context: ContextName = "default") -> None:
    """Check that the log continues what was seen before, print what was appended, and remember it."""
    _look(state, _watched(state, key), context)
    _say_blind_spots()


def watch(
    key: Key = None,
    state: State = STATE,
    every: Annotated[float, typer.Option(min=1, max=86_400, help="Seconds between two looks.")] = 60.0,
    context: ContextName = "default",
) -> None:
    """Verify again and again; ends when the log is not what it was."""
    _say_blind_spots()
    watched = _watched(state, key)
    while True:
        try:
            watched = _look(state, watched, context)
        except HostUnreachable as error:
            note(f"{error.message}; trying again in {every:g} s")
        time.sleep(every)


def key(context: ContextName = "default") -> None:
    """Print the host's public keys, as the host says; an auditor gets them from its operator."""
    with connect(context) as client:
        keys = client.log_keys()
    for name, value in keys.items():
        out.print(f"{name}  {value}", markup=False)
    note("compare them with what the operator publishes before you rely on them")


def _watched(path: Path, key: str | None) -> AuditState:
    """The state in the file, with one more log if a key is given that is not there yet."""
    known = audit.read_state(path)
    if key is None:
        return known
    file = Path(key)
    wanted = VerifierKey.parse((file.read_text(encoding="utf-8") if file.is_file() else key).strip())
    if any(log.key == wanted for log in known.logs):
        return known
    return known.watch(wanted)


def _look(path: Path, state: AuditState, context: str) -> AuditState:
    try:
        with connect(context) as client:
            seen = audit.look(LogClient(client.get), state)
    except LogInconsistent as error:
        known, shown = audit.keep_evidence(path, error)
        note(f"the evidence is in {known} (seen before) and {shown} (shown now)")
        raise
    audit.write_state(path, seen.state)
    for number, entry in enumerate(seen.entries, seen.before.size):
        out.print(_line(number, entry), markup=False)
    out.print(f"{seen.origin}: {seen.after.size} entries, {len(seen.entries)} new; consistent", markup=False)
    return seen.state


def _line(number: int, entry: LogEntry) -> str:
    subject, detail = entry.subject, entry.detail
    parts = {
        "": f"{subject.name} version {subject.version}" if subject.name else None,
        "bundle": subject.bundle,
        "key": subject.key,
        "blob": subject.blob,
        "policy serial": subject.serial,
        "new key for": subject.role,
        "rule": detail.rule,
        "holders": ", ".join(detail.holders),
        "code": detail.code,
        "reason": detail.reason,
    }
    said = "; ".join(f"{name} {value}".strip() for name, value in parts.items() if value not in (None, ""))
    return f"{number:>6}  {render_time(entry.time)}  {entry.kind:<12}  {entry.actor}: {said}"


def _say_blind_spots() -> None:
    note("without witnesses, an auditor cannot see this:")
    for spot in BLIND_SPOTS:
        note(f"  - {spot}")
