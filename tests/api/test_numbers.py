"""Numbers that no machine can hold, in every field of the host's that takes one: refused or taken, never a failure.

Fields are marked by HOLE; what is put there is not always JSON, as what clients send is not.
"""

import json
from typing import Any

import grpc
import pytest

from api.conftest import standard_host
from api.over_grpc import Served
from api.talking import Talker
from api.web import Web
from sandseal_host.api.grpc import messages
from sandseal_host.api.grpc.service import SERVICE

ODD = (
    "NaN", "Infinity", "-Infinity", "1e400", "1e308", "5e-324", "-0.0", "0.5", "-1", str(2**63), str(2**64),
    str(10**30), "9" * 5000, "-" + "9" * 30, "true", "null", '"7"', '"NaN"', "[]",
)  # fmt: skip
HOLE = "HOLE"

PARAMETERS = ("priority", "timeout", "sequence_id", "sequence_start", "binary_data_output", "own", "sandseal.receipt")
OPTIONS = (
    "max_tokens", "max_completion_tokens", "temperature", "top_k", "top_p", "min_p", "seed", "repetition_penalty",
    "presence_penalty", "frequency_penalty", "logit_bias", "stop", "stop_token_ids", "logprobs", "ignore_eos",
)  # fmt: skip
KINDS = (
    ("wide", "INT64", 1), ("bytes8", "UINT8", 1), ("identity", "FP32", 16), ("half", "FP16", 4), ("brain", "BF16", 4),
    ("flags", "BOOL", 4), ("text", "BYTES", 1),
)  # fmt: skip


def tensor(dtype: str = "INT64", count: Any = 1, **members: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": dtype, "shape": [1, count], **(members or {"data": [1]})}


def infer(*inputs: dict[str, Any], model: str = "wide", **members: Any) -> tuple[str, dict[str, Any]]:
    return f"/v2/models/{model}/infer", {"inputs": inputs or [tensor()], **members}


def chat(**members: Any) -> tuple[str, dict[str, Any]]:
    messages = [{"role": "user", "content": "a"}]
    return "/v1/chat/completions", {"model": "talker", "messages": messages, **members}


BODIES = [
    *(infer(parameters={name: HOLE}) for name in PARAMETERS),
    infer(tensor(count=HOLE)),
    infer(tensor(parameters={"binary_data_size": HOLE})),
    infer(outputs=[{"name": "y", "parameters": {"classification": HOLE}}]),
    *(infer(tensor(dtype, n, data=[HOLE] * n), model=model) for model, dtype, n in KINDS),
    ("/v2/models/wide/generate", {"x": HOLE, "id": HOLE, "own": HOLE}),
    *(("/v2/models/talker/generate", {"text_input": "a", name: HOLE}) for name in (*OPTIONS, "timeout")),
    *(chat(**{name: HOLE}) for name in (*OPTIONS, "n", "top_logprobs", "priority")),
    chat(logit_bias={"65": HOLE}),
    chat(stop_token_ids=[HOLE]),
    *(("/v1/completions", {"model": "talker", "prompt": "a", name: HOLE}) for name in ("prompt", "n", "best_of")),
    ("/v1/embeddings", {"model": "text", "input": "a", "dimensions": HOLE}),
    ("/v2/logging", {"log_verbose_level": HOLE}),
    ("/v2/trace/setting", {"trace_rate": HOLE}),
    *(("/v2/repository/models/mlp/load", {"parameters": {name: HOLE}}) for name in ("version", "wait")),
    *(("/v1/tokens", {"name": "t", "scopes": ["infer"], name: HOLE}) for name in ("requests_s", "rows_s", "expires")),
]
PATHS = (
    "/v1/log/entries?start=HOLE&end=2", "/v1/log/entries?start=0&end=HOLE", "/v1/log/proof?index=HOLE",
    "/v1/log/proof?index=0&size=HOLE", "/v1/log/proof?old=HOLE&new=2", "/v1/log/proof?old=1&new=HOLE",
    "/v1/profiles/HOLE", "/v1/models/mlp/queue?version=HOLE", "/v2/models/mlp/versions/HOLE/stats",
    "/v1/models/mlp/recordings?seconds=0.001&version=HOLE", "/v1/models/text/call?version=HOLE",
)  # fmt: skip
HEADERS = ("content-length", "inference-header-content-length")


@pytest.fixture(scope="module")
def client():
    host = standard_host()
    host.models.models.append(Talker())
    with Web(host.app, "root") as client:
        yield client


def check(answer):
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
    if answer.status_code >= 400:
        assert answer.json()["error"]


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_in_bodies(client, path, body):
    for odd in ODD:
        check(client.post(path, content=json.dumps(body).replace(f'"{HOLE}"', odd).encode()))


@pytest.mark.parametrize("path", PATHS)
def test_in_paths(client, path):
    for odd in ODD:
        for method in ("GET", "POST"):
            check(client.request(method, path.replace(HOLE, odd.strip('"')), content=b"x"))


@pytest.mark.parametrize("name", HEADERS)
def test_in_headers(client, name):
    for odd in ODD:
        path, body = infer()
        check(client.post(path, content=json.dumps(body).encode(), headers={name: odd}))


def test_how_long_a_recording_lasts(client):
    for odd in ("NaN", "Infinity", "1e400", "-0.0", "-1", "9" * 5000, "5e-324"):
        check(client.post(f"/v1/models/mlp/recordings?seconds={odd}"))


def test_a_parameter_that_json_cannot_say_is_refused(client):
    path, body = infer(parameters={"own": float("nan")})
    answer = client.post(path, content=json.dumps(body).encode())
    assert answer.status_code == 400
    assert "no finite number" in answer.json()["error"]


@pytest.fixture(scope="module")
def over_grpc():
    served = Served()
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        call = channel.unary_unary(f"/{SERVICE}/ModelInfer", messages.ModelInferRequest.SerializeToString)

        def ask(asked):
            ended = call.future(asked, metadata=[("authorization", "Bearer root")], timeout=20)
            return ended.code().name

        yield ask
    served.close()


@pytest.mark.parametrize("name", PARAMETERS)
def test_in_grpc_parameters(over_grpc, name):
    odd = [{"double_param": value} for value in (float("nan"), float("inf"), 1e308, 5e-324)]
    for parameter in (*odd, {"uint64_param": 2**64 - 1}, {"int64_param": -(2**63)}, {}):
        given = tensor(contents={"int64_contents": [1]})
        asked = messages.ModelInferRequest(model_name="wide", inputs=[given], parameters={name: parameter})
        assert over_grpc(asked) in ("OK", "INVALID_ARGUMENT", "UNIMPLEMENTED")
