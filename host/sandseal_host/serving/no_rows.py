"""What comes of no rows, which needs no run."""

from collections.abc import Mapping, Sequence

from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import Tensor, blank
from sandseal_signing.tensor import TensorSpec


def no_rows(inputs: Sequence[Tensor], taken: Sequence[TensorSpec], given: Sequence[TensorSpec]) -> tuple[Tensor, ...]:
    """Outputs without rows, their free axes as in the inputs or 0.

    Args:
        inputs: without rows, in the order of their specs.
        taken, given: the specs of inputs and outputs.

    Raises:
        RequestInvalid: an output does not count rows, so that there is something to run for; or its axes are too large.
    """
    for spec in given:
        if not spec.batched:  # it would be as large as whoever asks likes
            raise RequestInvalid(
                f"the request has no rows, and output {spec.name!r} is not counted in rows",
                hint="send at least one row",
            )
    sizes = {
        axis: size
        for tensor, spec in zip(inputs, taken, strict=True)
        for axis, size in zip(spec.shape, tensor.shape, strict=True)
    }
    return tuple(_empty(spec, sizes) for spec in given)


def _empty(spec: TensorSpec, sizes: Mapping[int | str, int]) -> Tensor:
    shape = tuple(axis if isinstance(axis, int) else sizes.get(axis, 0) for axis in spec.shape)
    try:
        return blank(spec, shape)
    except ValueError:  # NumPy multiplies the other axes out all the same
        raise RequestInvalid(f"output {spec.name!r} would have shape {list(shape)}, which no tensor has") from None
