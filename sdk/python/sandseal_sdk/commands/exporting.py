"""For publishers: models of other kinds, exported as bundle folders."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandseal_sdk.console import note, out, table

if TYPE_CHECKING:
    from sandseal_sdk.exporting import Source

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
    rows = [
        [d.output, str(d.elements), f"{d.absolute:.2g}", f"{d.relative:.2g}", str(d.unequal)]
        for d in exported.differences
    ]
    table("against the source", ["output", "elements", "largest difference", "relative", "unequal"], rows)
    note("next:")
    out.print(f"sandseal pack {folder} --key KEY")
