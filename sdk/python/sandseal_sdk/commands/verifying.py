"""For whoever receives a bundle: verify, unpack, and import what others signed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from sandseal_sdk.bundles import verification
from sandseal_sdk.bundles.keyfiles import read_public_key
from sandseal_sdk.bundles.verification import Report
from sandseal_sdk.commands.publishing import load_policy, print_verdict
from sandseal_sdk.console import byte_progress, note, out
from sandseal_sdk.errors import FileExists
from sandseal_signing.errors import SandsealError
from sandseal_signing.pack import Progress
from sandseal_signing.statement import Resource
from sandseal_signing.unpack import unpack_seal


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(verify)
    app.command()(unpack)
    foreign = typer.Typer(help="Turn models that others signed into bundle folders.", no_args_is_help=True)
    foreign.command("oms")(import_oms)
    app.add_typer(foreign, name="import")


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
    seal: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    folder: Annotated[Path, typer.Argument(help="Where to; must not be there yet.")],
) -> None:
    """Write a .seal file's contents into a new folder, for tools that want files; trusts nobody."""
    try:
        with seal.open("rb", buffering=0) as file, byte_progress("unpacking", seal.stat().st_size) as advance:
            contents = unpack_seal(file, folder, advance)
    except FileExistsError:
        raise FileExists(f"{folder} is already there", hint="give a folder that is not") from None
    out.print(f"{folder}  {len(contents.statement.resources)} files  bundle {contents.id}")


def import_oms(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The model as its publisher signed it.")],
    key: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="The publisher's public key.")],
    output: Annotated[Path, typer.Option("--out", "-o", help="The bundle folder to write; must not be there yet.")],
    signature: Annotated[Path | None, typer.Option(help="The signature; model.sig in the folder when absent.")] = None,
    name: Annotated[str | None, typer.Option(help="The model's name; made from the graph's file when absent.")] = None,
) -> None:
    """Verify a folder signed with OpenSSF Model Signing and write its signed files as a bundle folder."""
    from sandseal_sdk import importing  # reads graphs, which needs the extra `sdk`

    with byte_progress("importing", sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())) as advance:
        imported = importing.import_oms(
            folder, read_public_key(key), output, signature=signature, name=name, progress=advance
        )
    for remark in (*imported.remarks, *(f"not signed, so not taken: {left}" for left in imported.left_out)):
        note(remark)
    out.print(f"{output}  {len(imported.files)} files verified")
    if imported.why_no_manifest:
        note(f"no bundle.json was written: {imported.why_no_manifest}")
    else:
        out.print(f"sandseal pack {output} --key KEY")


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
