"""For publishers: what other systems keep models in, taken in as bundle folders."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandseal_sdk.bundles.keyfiles import read_public_key
from sandseal_sdk.console import byte_progress, note, out
from sandseal_sdk.decoders.precision import Precision

if TYPE_CHECKING:
    from sandseal_sdk.decoders.source import DecoderSource

Folder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The model's folder.")]
Output = Annotated[Path, typer.Option("--out", "-o", help="The bundle folder to write; must not be there yet.")]
Name = Annotated[str | None, typer.Option(help="The model's name; made from the file's when absent.")]
Weights = Annotated[Precision, typer.Option(help="What weights are kept in; what ends in f16 is for CUDA.")]
Context = Annotated[int | None, typer.Option(min=1, help="The most positions of a sequence, if fewer than it can.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    group = typer.Typer(help="Turn models of other systems into bundle folders.", no_args_is_help=True)
    group.command("oms")(import_oms)
    group.command("triton")(import_triton)
    group.command("gguf")(import_gguf)
    group.command("hf")(import_hf)
    group.command("genai")(import_genai)
    app.add_typer(group, name="import")


def import_oms(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The model as its publisher signed it.")],
    key: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="The publisher's public key.")],
    output: Output,
    signature: Annotated[Path | None, typer.Option(help="The signature; model.sig in the folder when absent.")] = None,
    name: Annotated[str | None, typer.Option(help="The model's name; made from the graph's file when absent.")] = None,
) -> None:
    """Verify a folder signed with OpenSSF Model Signing and write its signed files as a bundle folder."""
    from sandseal_sdk import importing  # reads graphs, which needs the extra `sdk`

    with byte_progress("importing", _size(folder)) as advance:
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


def import_gguf(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A language model for llama.cpp.")],
    output: Output,
    name: Name = None,
    weights: Weights = Precision.F32,
    context: Context = None,
) -> None:
    """Write a language model out of a GGUF file as a bundle that a host generates text with."""
    from sandseal_sdk.decoders.gguf_source import GgufSource

    _import_decoder(GgufSource(file), file, output, name, weights, context)


def import_hf(
    folder: Folder, output: Output, name: Name = None, weights: Weights = Precision.F32, context: Context = None
) -> None:
    """Write a language model out of a folder with config.json, safetensors and tokenizer.json, likewise."""
    from sandseal_sdk.decoders.hf_source import HfSource

    _import_decoder(HfSource(folder), folder, output, name, weights, context)


def import_genai(folder: Folder, output: Output, name: Name = None) -> None:
    """Copy what onnxruntime-genai's model builder made of a language model, likewise."""
    from sandseal_sdk import publish
    from sandseal_sdk.decoders.genai_folder import copy_decoder

    with byte_progress("copying", _size(folder)) as advance:
        copy_decoder(folder, output, name=name or publish.name_of(folder), progress=advance)
    _next(output)


def _import_decoder(
    source: "DecoderSource", path: Path, output: Path, name: str | None, weights: Precision, context: int | None
) -> None:
    from sandseal_sdk import publish
    from sandseal_sdk.decoders.bundle import write_decoder

    with source, byte_progress("converting", source.size) as advance:
        name = name or publish.name_of(path)
        write_decoder(source, output, name=name, precision=weights, context=context, progress=advance)
    _next(output)


def _next(output: Path) -> None:
    note(f"{_size(output):,} bytes; next, with a key from `sandseal keygen` and a policy from `sandseal trust new`:")
    out.print(f"sandseal pack {output} --key KEY")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
