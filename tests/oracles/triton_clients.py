"""Triton's own clients against a host: HTTP and gRPC, blocking and asynchronous, every way to send a tensor.

    triton_clients.py HTTP_PORT GRPC_PORT TOKEN

Prints a JSON list of what worked; ends with the first thing that did not.
"""

import asyncio
import json
import queue
import sys
import time

import ml_dtypes
import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.grpc.aio as over_grpc_aio
import tritonclient.http as over_http
import tritonclient.http.aio as over_http_aio
from tritonclient.utils import InferenceServerException

HTTP, GRPC = (f"127.0.0.1:{port}" for port in sys.argv[1:3])
TOKEN = sys.argv[3]
CASES = {
    "acme.mlp": ("FP32", np.linspace(-1, 1, 256, dtype=np.float32).reshape(2, 128)),
    "acme.text": ("BYTES", np.array([["h\u00e9llo", "", "x" * 300]], object)),
    "acme.half": ("FP16", np.array([[1.5, -0.0, 6e-8, 65504]], np.float16)),
    "acme.brain": ("BF16", np.array([[1.5, -2.0, 0.0, 3.140625]], ml_dtypes.bfloat16)),
}
worked = []


def known():
    """A new one each time: the HTTP client writes into it."""
    return {"authorization": f"Bearer {TOKEN}"}


def given(module, name, binary=None):
    dtype, data = CASES[name]
    tensor = module.InferInput("x", list(data.shape), dtype)
    tensor.set_data_from_numpy(data, **({} if binary is None else {"binary_data": binary}))
    return [tensor]


def check(name, answer, what):
    found, (_, sent) = answer.as_numpy("y"), CASES[name]
    if name == "acme.mlp":
        assert found.shape == (2, 10), found.shape
    elif name == "acme.text":
        texts = [text.decode() if isinstance(text, bytes) else text for text in found.ravel()]
        assert texts == sent.ravel().tolist(), texts
    else:
        assert np.array_equal(found, sent), found
    worked.append(f"{what} {name}")


def refuses(call, *words):
    said = ""
    try:
        call()
    except InferenceServerException as error:
        said = str(error)
    assert said, f"no refusal: {words}"
    assert all(word in said for word in words), said


def http():
    with over_http.InferenceServerClient(HTTP) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("acme.mlp", headers=known())
        assert client.get_model_config("acme.mlp", headers=known())["name"] == "acme.mlp"
        assert client.get_inference_statistics("acme.mlp", headers=known())["model_stats"]
        assert client.get_log_settings(headers=known())["log_info"] is True
        assert client.update_log_settings({"log_info": True}, headers=known())["log_error"] is True
        assert client.get_trace_settings(headers=known())["trace_level"] == ["OFF"]
        for name in CASES:
            for binary in (True, False):
                if not binary and name in ("acme.half", "acme.brain"):
                    continue  # the client has no JSON form for these
                wanted = [over_http.InferRequestedOutput("y", binary_data=binary)]
                for coding in (None, "gzip", "deflate"):
                    answer = client.infer(
                        name, given(over_http, name, binary), outputs=wanted, headers=known(), priority=1,
                        timeout=30_000_000, request_compression_algorithm=coding, response_compression_algorithm=coding,
                    )  # fmt: skip
                    check(name, answer, f"http {'binary' if binary else 'json'} {coding}")
        classes = [over_http.InferRequestedOutput("y", class_count=3)]
        found = client.infer("acme.mlp", given(over_http, "acme.mlp"), outputs=classes, headers=known()).as_numpy("y")
        assert found.shape == (2, 3), found
        call = client.async_infer("acme.mlp", given(over_http, "acme.mlp"), headers=known())
        check("acme.mlp", call.get_result(), "http async")
        refuses(lambda: client.infer("none", given(over_http, "acme.mlp"), headers=known()), "none")
        refuses(lambda: client.infer("acme.mlp", given(over_http, "acme.mlp")), "token")
        slow = over_http.InferInput("rounds", [1, 1], "INT64")
        slow.set_data_from_numpy(np.array([[2_000_000_000]]))
        refuses(lambda: client.infer("acme.loop", [slow], headers=known(), timeout=300_000), "504")
        worked.append("http timeout")


async def http_aio():
    async with over_http_aio.InferenceServerClient(HTTP) as client:
        for name in CASES:
            answer = await client.infer(name, given(over_http_aio, name), headers=known())
            check(name, answer, "http aio")
        slow = over_http_aio.InferInput("rounds", [1, 1], "INT64")
        slow.set_data_from_numpy(np.array([[2_000_000_000]]))
        try:
            await asyncio.wait_for(client.infer("acme.loop", [slow], headers=known(), timeout=30_000_000), 0.5)
        except TimeoutError:
            worked.append("http aio cancelled")
        quick = over_http_aio.InferInput("rounds", [1, 1], "INT64")
        quick.set_data_from_numpy(np.array([[3]]))
        answer = await client.infer("acme.loop", [quick], headers=known())
        assert answer.as_numpy("turns").tolist() == [[3]]


def grpc():
    with over_grpc.InferenceServerClient(GRPC) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.get_model_metadata("acme.mlp", headers=known()).name == "acme.mlp"
        assert client.get_model_config("acme.mlp", headers=known()).config.name == "acme.mlp"
        assert client.get_inference_statistics("acme.mlp", headers=known()).model_stats
        assert client.get_log_settings(headers=known()).settings["log_info"].bool_param is True
        logged = client.update_log_settings({"log_info": True, "log_verbose_level": 0}, headers=known())
        assert logged.settings["log_error"].bool_param is True
        assert client.get_trace_settings(headers=known()).settings["trace_level"].value == ["OFF"]
        refuses(lambda: client.update_trace_settings(settings={"trace_rate": "5"}, headers=known()), "sent nowhere")
        refuses(client.get_system_shared_memory_status, "UNIMPLEMENTED", "shares no memory")
        worked.append("grpc settings")
        for name in CASES:
            for coding in (None, "gzip", "deflate"):
                answer = client.infer(
                    name, given(over_grpc, name), headers=known(), priority=1, timeout=30_000_000,
                    compression_algorithm=coding, client_timeout=60,
                )  # fmt: skip
                check(name, answer, f"grpc {coding}")
        slow = over_grpc.InferInput("rounds", [1, 1], "INT64")
        slow.set_data_from_numpy(np.array([[2_000_000_000]]))
        refuses(lambda: client.infer("acme.loop", [slow], headers=known(), client_timeout=0.5), "DEADLINE_EXCEEDED")
        worked.append("grpc timeout")
        answers = queue.SimpleQueue()
        client.start_stream(lambda result, error: answers.put(error or result), headers=known())
        for _ in range(3):
            client.async_stream_infer("acme.mlp", given(over_grpc, "acme.mlp"))
        for _ in range(3):
            check("acme.mlp", answers.get(timeout=30), "grpc stream")
        client.stop_stream()
        call = client.async_infer(
            "acme.loop", [slow], lambda result, error: answers.put(error), headers=known(), timeout=2_000_000
        )
        time.sleep(0.3)
        call.cancel()
        assert answers.get(timeout=30) is not None
        worked.append("grpc cancelled")


async def grpc_aio():
    async with over_grpc_aio.InferenceServerClient(GRPC) as client:
        for name in CASES:
            check(name, await client.infer(name, given(over_grpc_aio, name), headers=known()), "grpc aio")

        async def asked():
            for _ in range(3):
                yield {"model_name": "acme.mlp", "inputs": given(over_grpc_aio, "acme.mlp")}

        async for result, error in client.stream_infer(asked(), headers=known()):
            assert error is None, error
            check("acme.mlp", result, "grpc aio stream")


http()
asyncio.run(http_aio())
grpc()
asyncio.run(grpc_aio())
print(json.dumps(worked))
