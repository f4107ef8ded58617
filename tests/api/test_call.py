"""The plain call: a file in, JSON out."""

import numpy as np
import pytest

from api.double import HostDouble, ModelDouble, ModelsDouble, manifest, spec
from api.test_infer import refused
from api.web import Web
from sandseal_host.tensors import Tensor, pack_bytes, unpack_bytes
from sandseal_signing.tensor import DataType


def test_one_bytes_element(client, host):
    answer = client.post("/v1/models/image/call", content=b"\x89PNG...", headers={"Content-Type": "image/png"})
    assert answer.status_code == 400  # the double echoes bytes that are not text
    assert "not UTF-8" in answer.json()["error"]
    (request,) = host.models.get("image").requests
    assert unpack_bytes(request.inputs[0]) == [b"\x89PNG..."]
    assert request.inputs[0].shape == (1,)


def test_answer_drops_the_axis_of_the_one_row(client):
    answer = client.post("/v1/models/image/call", content="häh".encode())
    assert answer.json() == {"model_name": "image", "model_version": "1", "outputs": {"y": "häh"}}
    answer = client.post("/v1/models/text/call", content=b"one")
    assert answer.json()["outputs"] == {"y": ["one"]}
    assert answer.headers["sandseal-bundle"]
    assert "run;dur=" in answer.headers["server-timing"]


def test_uint8_takes_its_size_from_the_body(client):
    assert client.post("/v1/models/bytes8/call", content=b"\x01\x02\xff").json()["outputs"] == {"y": [1, 2, 255]}
    assert client.post("/v1/models/bytes8/call", content=b"").json()["outputs"] == {"y": []}


def test_labels_and_scores():
    def run(request):
        labels = pack_bytes([b"pdf", b"ps"])
        scores = np.float32([[0.75, 0.25]])
        return (
            Tensor("label", DataType.BYTES, (1, 2), labels),
            Tensor("score", DataType.FP32, (1, 2), scores),
            Tensor("best", DataType.FP32, (1,), np.float32([np.nan])),
            Tensor("total", DataType.INT64, (), np.int64(7).reshape(())),
        )

    outputs = [spec("label", "BYTES", "batch", "k"), spec("score", "FP32", "batch", "k"), spec("best", "FP32", "batch")]
    made = manifest("kind", [spec("file", "BYTES", "batch")], [*outputs, spec("total", "INT64")])
    with Web(HostDouble(ModelsDouble(ModelDouble(made, run))).app, "root") as client:
        text = client.post("/v1/models/kind/call", content=b"%PDF").text
    assert text.endswith('"outputs":{"label":["pdf","ps"],"score":[0.75,0.25],"best":NaN,"total":7}}')


@pytest.mark.parametrize("kind", ["image/png", "IMAGE/JPEG; q=1", "application/pdf", "application/octet-stream", ""])
def test_content_types_that_pass(client, kind):
    answer = client.post("/v1/models/image/call", content=b"x", headers={"Content-Type": kind} if kind else {})
    assert answer.status_code == 200


def test_what_curl_says_of_any_file_passes(client):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/v1/models/image/call", content=b"x", headers=headers).status_code == 200


def test_content_types_that_do_not(client):
    answer = client.post("/v1/models/image/call", content=b"x", headers={"Content-Type": "text/html"})
    assert refused(answer, 415, "text/html", code="media_type_unsupported")["accepted"] == [
        "image/*",
        "application/pdf",
    ]
    answer = client.post("/v1/models/image/call", files={"file": b"x"})
    assert "--data-binary" in refused(answer, 415, code="media_type_unsupported")["hint"]


def test_models_that_take_no_plain_body(client):
    for model in ("mlp", "pair"):
        hint = refused(client.post(f"/v1/models/{model}/call", content=b"x"), 501, code="unsupported")["hint"]
        assert f"/v2/models/{model}/infer" in hint


def test_several_free_axes():
    def run(request):
        return request.inputs

    made = manifest("pixels", [spec("x", "UINT8", "h", "w", 3)], [spec("x", "UINT8", "h", "w", 3)])
    with Web(HostDouble(ModelsDouble(ModelDouble(made, run))).app, "root") as client:
        refused(client.post("/v1/models/pixels/call", content=bytes(12)), 400, "2 free axes")


def led(lead: bytes, body: bytes = b"x", length: int | None = None) -> dict:
    """A call with JSON in front of its body."""
    shown = str(len(lead) if length is None else length)
    return {"content": lead + body, "headers": {"Inference-Header-Content-Length": shown}}


def test_parameters_stand_in_front_of_the_body(client, host):
    lead = b'{"parameters": {"sandseal.class": "batch", "top_k": 3}}'
    answer = client.post("/v1/models/bytes8/call", **led(lead, b"\x01\x02"))
    assert answer.json()["outputs"] == {"y": [1, 2]}
    assert client.post("/v1/models/bytes8/call", **led(b"", b"\x03")).json()["outputs"] == {"y": [3]}
    asked, plain = host.models.get("bytes8").requests
    assert (asked.service_class.name, asked.parameters) == ("batch", b'{"top_k":3}')
    assert (plain.service_class.name, plain.parameters) == ("standard", b"{}")


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (led(b'{"inputs": []}'), "'parameters' alone"),
        (led(b'{"parameters": {"priority": "x"}}'), "priority"),
        (led(b"{"), "not"),
        (led(b"{}", length=9), "the body has 3 bytes"),
        ({"content": b"x", "headers": {"Inference-Header-Content-Length": "one"}}, "'one'"),
    ],
)
def test_what_may_not_stand_there(client, request_, why):
    refused(client.post("/v1/models/image/call", **request_), 400, why)


def test_version_in_the_query(client):
    refused(client.post("/v1/models/image/call?version=9", content=b"x"), 404, code="model_unknown")
    refused(client.post("/v1/models/image/call?version=x", content=b"x"), 400, "'x'")
    assert client.post("/v1/models/image/call?version=1", content=b"x").status_code == 200


def test_get_is_not_for_it(client):
    refused(client.get("/v1/models/image/call"), 405, code="method_not_allowed")
