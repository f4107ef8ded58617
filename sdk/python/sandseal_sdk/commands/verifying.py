"""For whoever receives a bundle: verify and unpack."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from sandseal_sdk.bundles import verification
from sandseal_sdk.bundles.verification import Report
from sandseal_sdk.commands.publishing import SealFile, load_policy, print_verdict
from sandseal_sdk.console import byte_progress, out
from sandseal_sdk.errors import FileExists
from sandseal_signing.errors import SandsealError
from sandseal_signing.pack import Progress
from sandseal_signing.statement import Resource
from sandseal_signing.unpack import unpack_seal


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(verify)
    app.command()(unpack)


def verify(
    bundle: Annotated[str, typer.Argument(help="A .seal file, a folder, or the id of a bundle in --data.")],
    trust: Annotated[Path, typer.Option(help="The trust policy to judge by; there is no default.")],
    data: Annotated[Path, typer.Option(help="A host's data folder; only read, and the host may run.")] = Path(
        "sandseal-data"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document, also when it is refused.")] = False,
) -> None:
    """Verify a bundle offline as a host would: signatures, policy, every byte; says what that leaves open."""
    path = Path(bundle)
    total = path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    try:
        with byte_progress("verifying", total) as advance:
            report = verification.verify(bundle, load_policy(trust), _Advance(advance), data=data)
    except SandsealError as error:
        if as_json:
            out.print_json(json.dumps(_refusal(error)))
            raise typer.Exit(1) from None
        raise
    if as_json:
        out.print_json(json.dumps(report.as_data()))
    else:
        _print(bundle, report)


def unpack(
    seal: SealFile,
    folder: Annotated[Path, typer.Argument(help="Where to; must not be there yet.")],
) -> None:
    """Write a .seal file's contents into a new folder, for tools that want files; trusts nobody."""
    try:
        with seal.open("rb", buffering=0) as file, byte_progress("unpacking", seal.stat().st_size) as advance:
            contents = unpack_seal(file, folder, advance)
    except FileExistsError:
        raise FileExists(f"{folder} is already there", hint="give a folder that is not") from None
    out.print(f"{folder}  {len(contents.statement.resources)} files  bundle {contents.id}")


class _Advance:
    """A sink that keeps nothing and reports each chunk's length."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def write(self, resource: Resource, chunks: Iterator[memoryview]) -> None:
        for chunk in chunks:
            self._progress(len(chunk))


def _print(bundle: str, report: Report) -> None:
    out.print("checked:")
    for line in report.checked:
        out.print(f"ok  {line}", markup=False)
    print_verdict(report.verdict)
    out.print("signed by:")
    for signer in report.signers:
        out.print(
            f"    {signer.holder} with {signer.algorithm} key {signer.key!r} ({signer.fingerprint})", markup=False
        )
    out.print("not checked:")
    for line in report.not_checked:
        out.print(f"--  {line}", markup=False)
    out.print(f"{bundle}: {report.name} version {report.version}, bundle {report.id}", markup=False)


def _refusal(error: SandsealError) -> dict[str, object]:
    return {
        "result": "refused",
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "data": error.data,
    }
