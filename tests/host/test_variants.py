"""Which of a model's graphs answers: the publisher's order, what devices are for, what the operator allows."""

import asyncio

import pytest

from sandseal_host.errors import ModelInvalid
from sandseal_host.runtime.device import DeviceKind
from sandseal_host.runtime.variants import fitting
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.variants import Precision, VariantSpec
from support.living_host import adding, living_host
from support.onnx_models import OnnxModel, identity

NAME = "acme.adding"
ANY, CUDA = {}, {"requires": "cuda"}
FP32 = VariantSpec(Precision.FP32, "model.onnx")
INT8 = VariantSpec(Precision.INT8, "int8.onnx")
HALF = VariantSpec(Precision.FP16, "half.onnx", requires="cuda")


def answering(tmp_path, variants, serving: str = "") -> tuple[int, Precision | None]:
    """What a host adds, which tells which graph it runs (the model's own adds 1), and what it calls it."""

    async def within() -> tuple[int, Precision | None]:
        async with living_host(tmp_path, serving) as host:
            await host.push(NAME, 1, variants=variants)
            return await host.ask(NAME), host.models.get(NAME, None).precision

    return asyncio.run(asyncio.wait_for(within(), 60))


@pytest.mark.parametrize(
    ("kind", "floor", "chosen"),
    [
        (DeviceKind.CPU, None, [INT8, FP32]),
        (DeviceKind.CUDA, None, [HALF, INT8, FP32]),
        (DeviceKind.CUDA, Precision.FP16, [HALF, FP32]),
        (DeviceKind.CPU, Precision.FP16, [FP32]),
    ],
)
def test_what_fits(kind: DeviceKind, floor: Precision | None, chosen: list[VariantSpec]) -> None:
    model = ModelSpec("model.onnx", (), (), variants=(HALF, INT8, FP32))
    assert list(fitting(model, kind, floor)) == chosen


def test_a_model_without_variants_is_its_graph() -> None:
    assert fitting(ModelSpec("model.onnx", (), ()), DeviceKind.CPU) == (FP32,)


@pytest.mark.parametrize(("variants", "floor"), [((HALF,), None), ((INT8, FP32), Precision.FP64)])
def test_nothing_fits(variants: tuple[VariantSpec, ...], floor: Precision | None) -> None:
    with pytest.raises(ModelInvalid, match=r"no variant|nothing as fine"):
        fitting(ModelSpec("model.onnx", (), (), variants=variants), DeviceKind.CPU, floor)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variants", "serving", "answer"),
    [
        ([], "", (1, None)),
        ([("INT8", adding(8), ANY)], "", (8, "INT8")),
        ([("FP16", adding(16), CUDA), ("INT8", adding(8), ANY)], "", (8, "INT8")),
        ([("INT8", adding(8), ANY)], 'precision = "FP16"', (1, "FP32")),
        ([("INT8", adding(8), ANY)], '[[models]]\nnames = ["acme.*"]\nprecision = "FP32"', (1, "FP32")),
    ],
    ids=["no variants", "the first", "the first for the device", "a floor for all", "a floor for some"],
)
def test_the_graph_that_answers(tmp_path, variants, serving: str, answer) -> None:
    assert answering(tmp_path, variants, serving) == answer


@pytest.mark.slow
@pytest.mark.parametrize("broken", [identity(shape=("batch", 3)), OnnxModel(identity().spec, b"nothing", {})])
def test_what_does_not_load_gives_way_to_the_next(tmp_path, caplog, broken: OnnxModel) -> None:
    assert answering(tmp_path, [("INT8", broken, ANY)]) == (1, "FP32")
    assert "INT8.onnx does not load, the next variant is tried" in caplog.text
