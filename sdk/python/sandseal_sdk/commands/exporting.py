"""For publishers: models of other kinds, exported as bundle folders."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandseal_sdk.console import note, out, table
from sandseal_sdk.errors import ExportFailed

if TYPE_CHECKING:
    from sandseal_sdk.exporting import Source
    from sandseal_sdk.exporting.comparison import OutputDifference

Folder = Annotated[Path, typer.Option("--out", "-o", help="The bundle folder to write; must not be there yet.")]
Name = Annotated[str | None, typer.Option(help="The model's name; made from the folder's when absent.")]
Opset = Annotated[int | None, typer.Option(help="The version of ONNX's operators; a fitting one when absent.")]
Samples = Annotated[
    list[Path], typer.Option(exists=True, dir_okay=False, help="An .npz file of inputs to compare with, by name.")
]
Tolerance = Annotated[float, typer.Option(help="How far outputs may be from the source's, relative and absolute.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    group = typer.Typer(help="Export models of other kinds as bundle folders, compared with their source.")
    for name, command in (("torch", export_torch), ("sklearn", export_sklearn), ("onnx", export_onnx)):
        group.command(name)(command)
    app.add_typer(group, name="export", no_args_is_help=True)
    app.command("variants")(add_variants)


def export_torch(
    module: Annotated[str, typer.Argument(help="FILE.py:FUNCTION that returns the module, or a torch.export .pt2.")],
    folder: Folder,
    inputs: Annotated[
        list[str], typer.Option("--input", help="NAME:DTYPE:AXES, as in image:FP32:batch,3,224,224; in order.")
    ],
    outputs: Annotated[list[str], typer.Option("--output", help="Names for what it returns, in order.")] = [],  # noqa: B006
    weights: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A state dict: safetensors, or of torch.save.")
    ] = None,
    name: Name = None,
    opset: Opset = None,
    samples: Samples = [],  # noqa: B006
    tolerance: Tolerance = 1e-3,
) -> None:
    """Export a torch module.

    A named axis is free; `tokens=128` traces and compares with 128.
    """
    from sandseal_sdk.exporting.samples import read_input
    from sandseal_sdk.exporting.torch_source import TorchSource, load_module

    read = [read_input(written) for written in inputs]
    sizes = {axis: size for _, found in read for axis, size in found.items()}
    loaded = load_module(module, weights)
    source = TorchSource(loaded, [spec for spec, _ in read], sizes, outputs=outputs, opset=opset)
    _export(source, folder, name, samples, tolerance)


def export_sklearn(
    estimator: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Written by joblib or pickle; reading it runs its code.")
    ],
    folder: Folder,
    name: Name = None,
    opset: Opset = None,
    samples: Samples = [],  # noqa: B006
    tolerance: Tolerance = 1e-3,
) -> None:
    """Export a fitted scikit-learn estimator or pipeline."""
    from sandseal_sdk.exporting.sklearn_source import SklearnSource

    _export(SklearnSource.load(estimator, opset=opset), folder, name, samples, tolerance)


def export_onnx(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An ONNX file.")],
    folder: Folder,
    name: Name = None,
    opset: Opset = None,
    free_rows: Annotated[
        bool, typer.Option("--free-rows", help="Let axis 0, one row in the file, take any number of rows.")
    ] = False,
    samples: Samples = [],  # noqa: B006
    tolerance: Tolerance = 1e-3,
) -> None:
    """Check an ONNX file, change its opset or free its rows, and compare it with itself as it was."""
    from sandseal_sdk.exporting.onnx_source import OnnxSource

    _export(OnnxSource(model, free_rows=free_rows, opset=opset), folder, name, samples, tolerance)


def add_variants(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A bundle folder with an FP32 graph.")],
    precision: Annotated[list[str], typer.Option(help="fp16 (for GPUs) or int8 (for CPUs); may be given twice.")],
    samples: Samples = [],  # noqa: B006
    tolerance: Annotated[float, typer.Option(help="How far outputs may be from those in FP32.")] = 0.05,
) -> None:
    """Add graphs of other precisions to a bundle folder, measured against its own; a host takes the best that fits."""
    from sandseal_sdk.exporting import variants
    from sandseal_sdk.exporting.onnx_source import OnnxSource
    from sandseal_sdk.exporting.samples import random_samples, read_arrays
    from sandseal_sdk.publish import read_manifest

    manifest = read_manifest(folder)
    if manifest.generation:
        raise ExportFailed(
            f"{folder} holds a language model, whose precision is chosen when it is imported",
            hint="import it again with another --weights",
        )
    source = OnnxSource(folder / manifest.model.file)
    inputs = [read_arrays(path, source.inputs) for path in samples] or random_samples(source.inputs, source.sizes)
    for name in precision:
        variant = variants.add_variant(folder, variants.offered(name), inputs, tolerance)
        _show(f"{variant.precision}, {variant.size / 1e6:.1f} MB, against FP32", variant.differences)
        if variant.time is not None:
            note(f"a run takes {variant.time:.2f} times as long as in FP32 on this machine, for inputs as compared")


def _show(title: str, differences: "Sequence[OutputDifference]") -> None:
    from sandseal_sdk.exporting.comparison import OutputDifference

    table(title, list(OutputDifference.COLUMNS), [list(difference.cells()) for difference in differences])


def _export(source: "Source", folder: Path, name: str | None, samples: list[Path], tolerance: float) -> None:
    from sandseal_sdk import exporting, publish
    from sandseal_sdk.exporting.samples import read_arrays

    note(f"exporting {source.description}")
    exported = exporting.export(
        source,
        folder,
        name=name or publish.name_of(folder),
        tolerance=tolerance,
        samples=[read_arrays(path, source.inputs) for path in samples],
    )
    for choice in exported.choices:
        note(choice)
    _show("against the source", exported.differences)
    note("next, with a key from `sandseal keygen` and a policy from `sandseal trust new`:")
    out.print(f"sandseal pack {folder} --key KEY")
