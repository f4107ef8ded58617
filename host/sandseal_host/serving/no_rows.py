"""The answer to a request without rows, which needs no run."""

from collections.abc import Mapping

from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.request import Request, Response
from sandseal_host.tensors import Tensor, blank
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.tensor import TensorSpec


def no_rows(model: ModelSpec, request: Request) -> Response:
    """Outputs without rows, their free axes as in the inputs or 0.

    Raises:
        RequestInvalid: an output does not count rows, so that there is something to run for.
    """
    for spec in model.plain_outputs:
        if not spec.batched:  # it would be as large as whoever asks likes
            raise RequestInvalid(
                f"the request has no rows, and output {spec.name!r} is not counted in rows",
                hint="send at least one row",
            )
    sizes = {
        axis: size
        for tensor, spec in zip(request.inputs, model.plain_inputs, strict=True)
        for axis, size in zip(spec.shape, tensor.shape, strict=True)
    }
    return Response(tuple(_empty(spec, sizes) for spec in model.plain_outputs))


def _empty(spec: TensorSpec, sizes: Mapping[int | str, int]) -> Tensor:
    shape = tuple(axis if isinstance(axis, int) else sizes.get(axis, 0) for axis in spec.shape)
    return blank(spec, shape)
