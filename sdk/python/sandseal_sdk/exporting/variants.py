"""A bundle's graph in other precisions, made with ONNX Runtime's tools and measured against the graph itself."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import onnx
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers.float16 import convert_float_to_float16

from sandseal_sdk.bundles.card import CARD
from sandseal_sdk.bundles.graph import walk_nodes
from sandseal_sdk.errors import ExportDiffers, ExportFailed, FileExists, InputInvalid
from sandseal_sdk.exporting.comparison import Graph, OutputDifference, compare, comparison_table, relative_time
from sandseal_sdk.exporting.samples import Arrays
from sandseal_signing.manifest import Manifest, parse_manifest, render_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.variants import Precision

_LARGE = 1 << 30  # bytes of weights that go beside the graph, since one protobuf file has at most 2 GiB
_BLOCK = 32


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How a precision is made.

    Args:
        make: the graph out of the FP32 one.
        requires: the kind of device that it pays on.
        domain: of the operators that it brings in.
        about: for the model card.
    """

    make: Callable[[onnx.ModelProto], onnx.ModelProto]
    requires: str
    domain: str
    about: str


@dataclass(frozen=True, slots=True)
class Variant:
    """One that was added to a bundle folder.

    Args:
        precision: what it computes in.
        file: its graph's.
        size: bytes of graph and weights.
        differences: how far its outputs are from the graph's own.
        time: that a run takes in relation to one of the graph, on this machine; None where it is for other devices.
    """

    precision: Precision
    file: str
    size: int
    differences: tuple[OutputDifference, ...]
    time: float | None


def add_variant(folder: Path, precision: Precision, samples: Sequence[Arrays], tolerance: float) -> Variant:
    """Add a variant to a bundle folder: graph, manifest and model card.

    Args:
        folder: the bundle's, whose graph is FP32.
        precision: FP16, for GPUs, or INT8, for CPUs.
        samples: inputs to compare on.
        tolerance: how far outputs may be from the graph's own, relative and absolute.

    Raises:
        FileExists: the bundle has such a variant.
        ExportFailed: the precision would change nothing of the graph.
        ExportDiffers: it is farther off; nothing is left behind.
    """
    recipe, manifest = _RECIPES[precision], parse_manifest((folder / MANIFEST).read_bytes())
    own = PurePosixPath(manifest.model.file)
    file = str(own.with_suffix(f".{precision.lower()}.onnx"))
    if (folder / file).exists():
        raise FileExists(f"{folder / file} is already there", hint="delete it and its member of `variants`")
    weights = _write(recipe.make(onnx.load(folder / own)), folder / file)
    try:
        graph, plain = Graph(folder / file), Graph(folder / own)
        differences = compare(plain.run, graph, samples)
        worst = max(differences, key=lambda difference: difference.excess(tolerance))
        if worst.excess(tolerance) > 0:
            raise ExportDiffers(
                f"in {precision} output {worst.output!r} is up to {worst.absolute:.3g} from the FP32 one's",
                hint="leave this precision out, or accept it with --tolerance",
                output=worst.output,
            )
    except BaseException:
        for path in (file, *weights):
            (folder / path).unlink()
        raise
    _describe(folder, manifest, precision, recipe, file, weights)
    size = sum((folder / path).stat().st_size for path in (file, *weights))
    time = relative_time(graph, plain, samples) if recipe.requires == "cpu" else None
    variant = Variant(precision, file, size, differences, time)
    _extend_card(folder, variant, recipe)
    return variant


def _write(model: onnx.ModelProto, path: Path) -> list[str]:
    """Write the graph; the names of its weight files."""
    if model.ByteSize() < _LARGE:
        onnx.save(model, path)
        return []
    onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data")
    return [f"{path.name}.data"]


def _describe(
    folder: Path, manifest: Manifest, precision: Precision, recipe: _Recipe, file: str, weights: Sequence[str]
) -> None:
    """Put it before the graphs that are there: the host takes the first that fits."""
    document = json.loads((folder / MANIFEST).read_bytes())
    member: dict[str, Any] = {"precision": precision, "file": file, "requires": recipe.requires}
    if weights:
        member["external_data"] = list(weights)
    model = document["model"]
    model["variants"] = [member, *model.get("variants", [])]
    model["domains"] = sorted({*manifest.model.domains, recipe.domain})
    (folder / MANIFEST).write_bytes(render_manifest(document))


def _extend_card(folder: Path, variant: Variant, recipe: _Recipe) -> None:
    card = folder / CARD
    text = card.read_text(encoding="utf-8") if card.exists() else f"# {folder.name}\n"
    about = recipe.about if variant.time is None else f"{recipe.about} A run took {variant.time:.2f} times as long."
    part = f"\n## In {variant.precision}, {variant.size / 1e6:.1f} MB, for {recipe.requires}\n\n{about}\n\n"
    card.write_text(text + part + comparison_table(variant.differences) + "\n", encoding="utf-8")


def _half(model: onnx.ModelProto) -> onnx.ModelProto:
    half: onnx.ModelProto = convert_float_to_float16(model, keep_io_types=True)
    return half


def _eight_bits(model: onnx.ModelProto) -> onnx.ModelProto:
    logging.getLogger("onnxruntime.quantization.matmul_nbits_quantizer").setLevel(logging.WARNING)  # a line per node
    quantizer = MatMulNBitsQuantizer(model, bits=8, block_size=_BLOCK, is_symmetric=True, accuracy_level=4)
    quantizer.process()
    quantised: onnx.ModelProto = quantizer.model.model
    if not any(node.op_type == "MatMulNBits" for node in walk_nodes([*quantised.graph.node])):
        raise ExportFailed("the graph multiplies by no matrix that could be kept in 8 bits", hint="leave int8 out")
    return quantised


_RECIPES = {
    Precision.FP16: _Recipe(_half, "cuda", "", "Computed in FP16; inputs and outputs stay as they were."),
    Precision.INT8: _Recipe(
        _eight_bits, "cpu", "com.microsoft",
        f"Matrices in 8 bits, in blocks of {_BLOCK}. Activations are scaled row by row: one scale for a whole batch "
        "would let requests that share it change each other's answers.",
    ),
}  # fmt: skip


def offered(name: str) -> Precision:
    """The precision of this name.

    Raises:
        InputInvalid: none that can be made.
    """
    precision = name.upper()
    if precision not in _RECIPES:
        raise InputInvalid(f"{name!r} cannot be made", hint=f"it can be {' or '.join(_RECIPES).lower()}")
    return Precision(precision)
