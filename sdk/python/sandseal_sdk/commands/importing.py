"""For publishers: what other systems keep models in, taken in as bundle folders."""

from pathlib import Path
from typing import Annotated

import typer

from sandseal_sdk.bundles.keyfiles import read_public_key
from sandseal_sdk.console import byte_progress, note, out


def register(app: typer.Typer) -> None:
    """Add these commands."""
    group = typer.Typer(help="Turn models of other systems into bundle folders.", no_args_is_help=True)
    group.command("oms")(import_oms)
    group.command("triton")(import_triton)
    app.add_typer(group, name="import")


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


def import_triton(
    repository: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="What tritonserver is given.")],
    output: Annotated[Path, typer.Option("--out", "-o", help="Gets a bundle folder for each model.")],
) -> None:
    """Read a Triton model repository of ONNX models; what config.pbtxt says beyond a bundle is reported."""
    from sandseal_sdk import triton

    for model in triton.import_repository(repository, output):
        for member, advice in model.unmapped.items():
            note(f"{model.name}: {member} is {advice}")
        out.print(f"sandseal pack {model.bundle} --key KEY")
