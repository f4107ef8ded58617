"""In which precision a model answers, and how fine a client wants it."""

from typing import Any

import pytest

from api.double import HostDouble, ModelsDouble, identity
from api.test_infer import ask, refused, tensor
from api.web import Web
from sandseal_host.api.grpc import messages
from sandseal_host.api.grpc.codec import encode
from sandseal_host.api.inference import Plan
from sandseal_host.api.terms import Terms
from sandseal_host.serving.request import STANDARD, Response
from sandseal_signing.variants import Precision

INPUTS = {"inputs": [tensor(data=[0] * 16)]}


@pytest.fixture
def served() -> Any:
    """A host whose model `eight` is served in INT8, and `plain` has no variants."""
    eight, plain = (identity(name, "FP32", "batch", 16) for name in ("eight", "plain"))
    eight.precision = Precision.INT8
    with Web(HostDouble(ModelsDouble(eight, plain)).app, "root") as client:
        yield client


def infer(client: Web, model: str, floor: Any) -> Any:
    return client.post(f"/v2/models/{model}/infer", json=INPUTS | {"parameters": {"sandseal.min_precision": floor}})


def test_answers_and_metadata_say_which_variant_serves(served: Web) -> None:
    assert ask(served, "eight", tensor(data=[0] * 16)).json()["parameters"] == {"sandseal.precision": "INT8"}
    assert "parameters" not in ask(served, "plain", tensor(data=[0] * 16)).json()
    assert served.get("/v2/models/eight").json()["properties"]["precision"] == "INT8"
    assert "precision" not in served.get("/v2/models/plain").json()["properties"]


def test_over_grpc_too() -> None:
    model = identity("eight", "FP32", "batch", 16)
    plan = Plan((), 1, Terms(STANDARD), 0)
    told = encode(model.manifest, Precision.INT8, plan, Response(())).parameters
    assert told["sandseal.precision"] == messages.InferParameter(string_param="INT8")
    assert not encode(model.manifest, None, plan, Response(())).parameters


@pytest.mark.parametrize(("model", "floor"), [("eight", "INT4"), ("eight", "INT8"), ("plain", "FP32"), ("plain", None)])
def test_fine_enough(served: Web, model: str, floor: str) -> None:
    assert infer(served, model, floor).status_code == 200


def test_too_coarse(served: Web) -> None:
    body = refused(infer(served, "eight", "FP16"), 400, "INT8", code="precision_unavailable")
    assert (body["served"], body["floor"]) == ("INT8", "FP16")
    refused(infer(served, "plain", "FP64"), 400, "FP32", code="precision_unavailable")


@pytest.mark.parametrize("floor", ["fp16", "FP8", 16, True, ["FP16"]])
def test_what_is_no_precision(served: Web, floor: Any) -> None:
    refused(infer(served, "eight", floor), 400, "sandseal.min_precision", code="request_invalid")
