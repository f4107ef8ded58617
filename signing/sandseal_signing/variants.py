"""A bundle's `model.variants`: graphs of other precisions for the same model, the preferred one first."""

from dataclasses import dataclass
from enum import StrEnum

from sandseal_signing.schema import Node

DEVICES = ("cpu", "cuda")


class Precision(StrEnum):
    """What a graph computes in, from the coarsest to the finest."""

    INT4 = "INT4"
    INT8 = "INT8"
    BF16 = "BF16"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"

    def reaches(self, floor: "Precision") -> bool:
        """Whether it is as fine as `floor`, or finer."""
        order = list(Precision)
        return order.index(self) >= order.index(floor)


@dataclass(frozen=True, slots=True)
class VariantSpec:
    """One of a model's graphs; all have the model's tensors.

    Args:
        precision: what it computes in.
        file: the ONNX graph.
        external_data: the weights beside it.
        requires: the only kind of device that it is for; None for any.
    """

    precision: Precision
    file: str
    external_data: tuple[str, ...] = ()
    requires: str | None = None


def read_variants(model: Node, file: str, external_data: tuple[str, ...]) -> tuple[VariantSpec, ...]:
    """Read the member of `model`; the node's own error class is raised.

    Where the model's own graph is not one of them, it comes last, as FP32.

    Args:
        file, external_data: the model's own.
    """
    variants = [_read(node, file, external_data) for node in model.children("variants", [])]
    files = [variant.file for variant in variants]
    if len(set(files)) != len(files):
        model.fail("variants", "holds a file twice")
    if variants and file not in files:
        variants.append(VariantSpec(Precision.FP32, file, external_data))
    return tuple(variants)


def _read(node: Node, file: str, external_data: tuple[str, ...]) -> VariantSpec:
    rule = f"one of {', '.join(Precision)}"
    precision = Precision(node.text("precision", valid=Precision.__members__.__contains__, rule=rule))
    own = node.file("file")
    weights = external_data if own == file else node.files("external_data", ())
    variant = VariantSpec(
        precision, own, weights, node.text("requires", None, valid=DEVICES.__contains__, rule="a device")
    )
    node.close()
    return variant
