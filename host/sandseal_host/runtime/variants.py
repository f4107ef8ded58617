"""Which of a model's graphs a device runs: the publisher's order, within what the operator allows."""

from sandseal_host.errors import ModelInvalid
from sandseal_host.runtime.device import DeviceKind
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.variants import Precision, VariantSpec


def every(model: ModelSpec) -> tuple[VariantSpec, ...]:
    """All of a model's graphs; its own alone, as FP32, where it names no variants."""
    return model.variants or (VariantSpec(Precision.FP32, model.file, model.external_data),)


def fitting(model: ModelSpec, kind: DeviceKind, floor: Precision | None = None) -> tuple[VariantSpec, ...]:
    """The graphs that may be loaded, the one to be tried first in front.

    Args:
        model: see `every`.
        kind: of the device that is to run it.
        floor: the coarsest precision that the operator allows.

    Raises:
        ModelInvalid: none is for such a device, or fine enough.
    """
    here = tuple(variant for variant in every(model) if variant.requires in (None, kind))
    if not here:
        raise ModelInvalid(
            f"no variant of the model is for {kind}", hint="add one without `requires`", device=str(kind)
        )
    fine = tuple(variant for variant in here if floor is None or variant.precision.reaches(floor))
    if not fine:
        offered = ", ".join(variant.precision for variant in here)
        raise ModelInvalid(
            f"the model has {offered} for {kind}, and nothing as fine as {floor}",
            hint="add a finer variant, or lower `precision` in the serving file",
        )
    return fine
