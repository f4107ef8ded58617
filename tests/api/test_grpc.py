"""The protocol over gRPC, with Triton's own client and with messages that it would never send."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from api.double import identity
from api.over_grpc import Served
from sandseal_host.api.grant import Grant
from sandseal_host.api.grpc import messages, service
from sandseal_host.api.grpc.codec import decode
from sandseal_host.api.grpc.server import serve_grpc
from sandseal_host.api.grpc.service import SERVICE
from sandseal_host.errors import SettingsInvalid
from sandseal_host.registry.tokens import Rate, Scope
from sandseal_host.serving.request import BATCH
from support.waiting import wait_until

triton = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[grpc]")

TOKEN = {"authorization": "Bearer root"}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.close()


@pytest.fixture
def client(served):
    with triton.InferenceServerClient(f"127.0.0.1:{served.port}") as client:
        yield client


def given(name: str, data: Any, dtype: str) -> Any:
    tensor = triton.InferInput(name, list(data.shape), dtype)
    tensor.set_data_from_numpy(data)
    return tensor


def test_the_server_and_its_models(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata(headers=TOKEN).name == "sandseal"
    assert client.is_model_ready("mlp", headers=TOKEN)
    metadata = client.get_model_metadata("mlp", headers=TOKEN)
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [("x", "FP32", [-1, 128])]
    index = client.get_model_repository_index(headers=TOKEN).models
    assert ("mlp", "1", "READY") in {(m.name, m.version, m.state) for m in index}
    client.load_model("mlp", headers=TOKEN)


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_infer(client, compression):
    x = np.linspace(-1, 1, 256, dtype=np.float32).reshape(2, 128)
    wanted = [triton.InferRequestedOutput("y")]
    for outputs in (wanted, None):
        answer = client.infer(
            "mlp", [given("x", x, "FP32")], outputs=outputs, request_id="7", headers=TOKEN, priority=1,
            timeout=1_000_000, client_timeout=60, compression_algorithm=compression,
        )  # fmt: skip
        assert answer.get_response().id == "7"
        assert np.array_equal(answer.as_numpy("y"), x @ np.linspace(-1, 1, 1280, dtype=np.float32).reshape(128, 10))


@pytest.mark.parametrize(
    ("model", "dtype", "data"),
    [
        ("text", "BYTES", np.array([["héllo", ""]], object)),
        ("flags", "BOOL", np.array([[True, False, True, True]])),
        ("half", "FP16", np.array([[1, -0.0, np.inf, 6e-8]], np.float16)),
        ("wide", "INT64", np.array([[2**63 - 1, -(2**63)]])),
        ("wide", "INT64", np.zeros((0, 3), np.int64)),
    ],
)
def test_every_kind_comes_back(client, model, dtype, data):
    found = client.infer(model, [given("x", data, dtype)], headers=TOKEN).as_numpy("y")
    if dtype == "BYTES":
        found = np.array([[value.decode() for value in found.ravel()]], object)
    assert found.shape == data.shape
    assert np.array_equal(found, data)


def test_classes(client):
    x = np.array([[*range(16)]] * 2, np.float32)
    wanted = triton.InferRequestedOutput("y", class_count=2)
    answer = client.infer("identity", [given("x", x, "FP32")], outputs=[wanted], headers=TOKEN)
    assert answer.as_numpy("y").tolist() == [[b"15.000000:15", b"14.000000:14"]] * 2
    unsorted = triton.InferRequestedOutput("y", class_count=1)
    with pytest.raises(triton.InferenceServerException, match="BYTES"):
        client.infer("text", [given("x", np.array([["a"]], object), "BYTES")], outputs=[unsorted], headers=TOKEN)


def test_a_version(client):
    x = np.zeros((1, 16), np.float32)
    assert client.infer("versions", [given("x", x, "FP32")], headers=TOKEN).get_response().model_version == "3"
    old = client.infer("versions", [given("x", x, "FP32")], model_version="1", headers=TOKEN)
    assert old.get_response().model_version == "1"


def test_a_call_is_told_of_and_its_id_comes_back(served):
    told = []
    edge = served.host.app.endpoint.edge
    object.__setattr__(edge, "observer", told.append)
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        metadata = (*TOKEN.items(), ("x-request-id", "r1"), ("traceparent", "00-1-2-01"))
        x = np.zeros((1, 128), np.float32)
        asked = messages.ModelInferRequest(model_name="mlp", id="own", raw_input_contents=[x.tobytes()])
        asked.inputs.add(name="x", datatype="FP32", shape=[1, 128])
        _, call = infer_stub(channel).with_call(asked, metadata=metadata, timeout=60)
        assert ("x-request-id", "r1") in call.initial_metadata()
        trailing = dict(call.trailing_metadata())
        assert trailing["server-timing"] == "queue;dur=1.000, run;dur=2.000"
        assert trailing["sandseal-bundle"] == served.host.models.get("mlp").bundle_id
        asked.inputs[0].datatype = "INT8"
        with pytest.raises(grpc.RpcError):
            infer_stub(channel)(asked, metadata=[*TOKEN.items()], timeout=60)
    object.__setattr__(edge, "observer", None)
    good, bad = told
    assert (good.request_id, good.traceparent, good.verdict, good.status) == ("r1", "00-1-2-01", "ok", 200)
    assert (bad.request_id, bad.verdict, bad.status) == ("own", "request_invalid", 400)
    assert good.arrived <= good.asked <= good.ended


class TestErrors:
    def refused(self, client, code, *words, model="identity", headers=TOKEN, x=None, **options):
        x = np.zeros((1, 16), np.float32) if x is None else x
        with pytest.raises(triton.InferenceServerException) as refusal:
            client.infer(model, [given("x", x, "FP32")], headers=headers, **options)
        assert refusal.value.status() == f"StatusCode.{code}"
        for word in words:
            assert word in refusal.value.message()

    def test_who_asks(self, client):
        self.refused(client, "UNAUTHENTICATED", "wants a token", headers=None)
        self.refused(client, "UNAUTHENTICATED", "nobody issued", headers={"authorization": "Bearer stranger"})
        self.refused(client, "PERMISSION_DENIED", "infer", headers={"authorization": "Bearer publisher"})
        self.refused(client, "NOT_FOUND", model="identity", headers={"authorization": "Bearer narrow"})

    def test_what_is_asked(self, client):
        self.refused(client, "NOT_FOUND", "none", model="none")
        self.refused(client, "INVALID_ARGUMENT", "version", model_version="x")
        self.refused(client, "INVALID_ARGUMENT", "[1, 3]", x=np.zeros((1, 3), np.float32))
        self.refused(client, "INVALID_ARGUMENT", "output 'z'", outputs=[triton.InferRequestedOutput("z")])
        self.refused(client, "UNIMPLEMENTED", "REST", parameters={"sandseal.receipt": "once"})

    def test_a_hidden_model_is_unknown(self, client):
        narrow = {"authorization": "Bearer narrow"}
        for name in ("pair", "none"):
            self.refused(client, "NOT_FOUND", f"there is no model {name!r}", model=name, headers=narrow)
            asked = (client.get_model_metadata, client.get_model_config, client.get_inference_statistics)
            for call in (*asked, client.is_model_ready, client.load_model, client.unload_model):
                with pytest.raises(triton.InferenceServerException, match=f"NOT_FOUND.*there is no model '{name}'"):
                    call(name, headers=narrow)
        assert {m.name for m in client.get_model_repository_index(headers=narrow).models} == {"mlp"}

    def test_rates_and_ceilings(self, client, served):
        paced = Grant("paced", frozenset({Scope.INFER}), id="paced", ceiling=BATCH, rate=Rate(requests_s=0.1))
        served.host.tokens.grants["paced"] = paced
        headers, x = {"authorization": "Bearer paced"}, given("x", np.zeros((1, 16), np.float32), "FP32")
        client.infer("identity", [x], headers=headers, priority=1)
        assert served.host.models.get("identity").requests[-1].service_class is BATCH
        self.refused(client, "RESOURCE_EXHAUSTED", "'paced'", headers=headers)

    def test_acts_are_audited(self, client, served, caplog):
        caplog.set_level(logging.INFO, "sandseal.audit")
        client.load_model("mlp", headers=TOKEN)
        with pytest.raises(triton.InferenceServerException):
            client.unload_model("mlp", headers={"authorization": "Bearer caller"})
        told = [(r.getMessage(), r.token, r.outcome) for r in caplog.records if r.name == "sandseal.audit"]
        assert told == [("gRPC load mlp", "root", "OK"), ("gRPC unload mlp", "caller", "not_permitted")]

    def test_an_operator_is_wanted(self, client, served):
        with pytest.raises(triton.InferenceServerException, match="PERMISSION_DENIED"):
            client.unload_model("mlp", headers={"authorization": "Bearer caller"})
        with pytest.raises(triton.InferenceServerException, match="what runs is what was signed"):
            client.load_model("mlp", config="{}", headers=TOKEN)

    def test_the_stable_code_is_in_the_metadata(self, served):
        with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            call = infer_stub(channel)
            with pytest.raises(grpc.RpcError) as refusal:
                call(messages.ModelInferRequest(model_name="none"), metadata=list(TOKEN.items()))
        assert ("sandseal-code", "model_unknown") in [tuple(pair) for pair in refusal.value.trailing_metadata()]

    def test_shared_memory(self, client):
        for call in (
            client.get_system_shared_memory_status,
            client.get_cuda_shared_memory_status,
            client.unregister_system_shared_memory,
            client.unregister_cuda_shared_memory,
            lambda: client.register_system_shared_memory("r", "/r", 64),
            lambda: client.register_cuda_shared_memory("r", b"", 0, 64),
        ):
            with pytest.raises(triton.InferenceServerException, match=r"UNIMPLEMENTED.*shares no memory"):
                call()

    def test_unknown_calls(self, served):
        with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel, pytest.raises(grpc.RpcError) as refusal:
            channel.unary_unary(f"/{SERVICE}/Nothing")(b"", metadata=[*TOKEN.items()], timeout=60)
        assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


def _after(event: threading.Event) -> Iterator[bytes]:
    event.wait(60)
    yield b""


def test_metadata_has_a_limit(served):
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        metadata = [*TOKEN.items(), ("x", "x" * 40_000)]
        with pytest.raises(grpc.RpcError) as refusal:
            infer_stub(channel)(messages.ModelInferRequest(model_name="mlp"), metadata=metadata, timeout=60)
    assert refusal.value.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL)


def infer_stub(channel: Any) -> Any:
    return channel.unary_unary(
        f"/{SERVICE}/ModelInfer",
        request_serializer=messages.ModelInferRequest.SerializeToString,
        response_deserializer=messages.ModelInferResponse.FromString,
    )


class TestMessages:
    """What no client library sends."""

    @pytest.fixture
    def ask(self, served):
        with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            stub = infer_stub(channel)

            def ask(model: str, *tensors: dict[str, Any], **members: Any) -> Any:
                inputs = [messages.ModelInferRequest.InferInputTensor(**tensor) for tensor in tensors]
                message = messages.ModelInferRequest(model_name=model, inputs=inputs, **members)
                return stub(message, metadata=list(TOKEN.items()), timeout=60)

            yield ask

    @pytest.mark.parametrize(
        ("model", "dtype", "contents", "numpy"),
        [
            ("identity", "FP32", {"fp32_contents": range(16)}, np.float32),
            ("bytes8", "UINT8", {"uint_contents": range(16)}, np.uint8),
            ("wide", "INT64", {"int64_contents": range(16)}, np.int64),
        ],
    )
    def test_typed_contents(self, ask, model, dtype, contents, numpy):
        answer = ask(model, {"name": "x", "datatype": dtype, "shape": [1, 16], "contents": contents})
        assert np.array_equal(np.frombuffer(answer.raw_output_contents[0], numpy), np.arange(16))

    def test_typed_strings_and_flags(self, ask):
        text = {"name": "x", "datatype": "BYTES", "shape": [1, 2], "contents": {"bytes_contents": [b"a", b"\xff"]}}
        assert ask("text", text).raw_output_contents[0] == b"\1\0\0\0a\1\0\0\0\xff"
        flags = {"name": "x", "datatype": "BOOL", "shape": [1, 4], "contents": {"bool_contents": [True] * 4}}
        assert ask("flags", flags).raw_output_contents[0] == b"\1\1\1\1"

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"contents": {"fp32_contents": [1.0]}}, "elements"),
            ({"contents": {"fp64_contents": [1.0] * 16}}, "fp64_contents"),
            ({"contents": {}}, "elements"),
            ({"datatype": "FP16", "contents": {}}, "FP16"),
            ({"shape": [1, -16]}, "integers from 0"),
            ({"shape": [2**40, 16]}, "integers from 0"),
            ({"shape": [2**31 - 1, 2**31 - 1]}, "more elements"),
            ({"name": "z"}, "no input 'z'"),
            ({"parameters": {"shared_memory_region": {"string_param": "r"}}}, "shares no memory"),
        ],
    )
    def test_refusals(self, ask, change, words):
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 16], "contents": {"fp32_contents": range(16)}}
        with pytest.raises(grpc.RpcError) as refusal:
            ask("identity", {**tensor, **change})
        assert refusal.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
        assert words in refusal.value.details()

    def test_bf16_is_raw(self, ask):
        raw = np.array([0x3F80, 0xC000, 0x7F80, 1], np.uint16).tobytes()
        tensor = {"name": "x", "datatype": "BF16", "shape": [1, 4]}
        assert ask("brain", tensor, raw_input_contents=[raw]).raw_output_contents[0] == raw

    def test_raw_and_typed_do_not_mix(self, ask):
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 16]}
        typed = {**tensor, "contents": {"fp32_contents": range(16)}}
        for tensors, raw, words in (
            ([typed], [bytes(64)], "beside raw"),
            ([tensor], [bytes(64), bytes(64)], "2 elements for 1"),
            ([tensor], [bytes(63)], "63 bytes"),
            ([tensor, tensor], [bytes(64), bytes(64)], "twice"),
            ([], [], "lacks the inputs"),
        ):
            with pytest.raises(grpc.RpcError) as refusal:
                ask("identity", *tensors, raw_input_contents=raw)
            assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert words in refusal.value.details()

    def test_long_reasons_are_cut(self, client):
        files = {f"file:{i}": b"" for i in range(2_000)}
        with pytest.raises(triton.InferenceServerException, match="file:10") as refusal:
            client.load_model("mlp", config="{}", files=files, headers=TOKEN)
        assert refusal.value.status() == "StatusCode.UNIMPLEMENTED"
        assert len(refusal.value.message()) < 2_100

    def test_what_clients_say_of_tensors_besides(self, ask):
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 16]}
        sized = {**tensor, "parameters": {"binary_data_size": {"int64_param": 64}}}  # KServe's does
        assert ask("identity", sized, raw_input_contents=[bytes(64)]).raw_output_contents[0] == bytes(64)

    def test_a_large_message_is_read_on_a_thread(self, ask, monkeypatch):
        threads = []

        def decode_and_tell(*arguments: Any) -> Any:
            threads.append(threading.current_thread())
            return decode(*arguments)

        monkeypatch.setattr(service, "decode", decode_and_tell)
        asked = {"name": "x", "datatype": "FP32", "shape": [1, 16]}
        for outputs in (1, 1, 100_000):
            ask("identity", asked, raw_input_contents=[bytes(64)], outputs=[{"name": "y"}] * outputs)
        first, second, large = threads
        assert first is second is not large

    def test_a_model_that_is_replaced_while_its_message_is_read(self, ask, served, monkeypatch):
        before, after = identity("swapped", "FP32", "batch", 16), identity("swapped", "FP32", "batch", 16)
        models = served.host.models.models
        models.append(before)

        def decode_and_replace(*arguments: Any) -> Any:
            if before in models:
                models[models.index(before)] = after
            return decode(*arguments)

        monkeypatch.setattr(service, "decode", decode_and_replace)
        ask("swapped", {"name": "x", "datatype": "FP32", "shape": [1, 16]}, raw_input_contents=[bytes(64)])
        assert (len(before.requests), len(after.requests)) == (0, 1)
        models.remove(after)

    def test_what_is_no_message(self, served):
        with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            with pytest.raises(grpc.RpcError) as refusal:
                channel.unary_unary(f"/{SERVICE}/ModelInfer")(b"\xff", metadata=list(TOKEN.items()), timeout=60)
            assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            stream = channel.stream_stream(
                f"/{SERVICE}/ModelStreamInfer", response_deserializer=messages.ModelStreamInferResponse.FromString
            )
            answers = list(stream(iter([b"\xff", b"\xff"]), metadata=list(TOKEN.items()), timeout=60))
        assert ["ModelInferRequest" in answer.error_message for answer in answers] == [True, True]

    @pytest.mark.parametrize("call", ["ModelInfer", "ModelStreamInfer", "RepositoryIndex"])
    def test_a_stranger_is_told_before_anything_is_read(self, served, call):
        sending = threading.Event()
        with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            with pytest.raises(grpc.RpcError) as refusal:
                list(channel.stream_stream(f"/{SERVICE}/{call}")(_after(sending), timeout=60))
            sending.set()
        assert refusal.value.code() == grpc.StatusCode.UNAUTHENTICATED

    def test_a_message_over_the_limit(self, ask):
        with pytest.raises(grpc.RpcError) as refusal:
            ask("identity", raw_input_contents=[bytes(65 << 20)])
        assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_caller_that_cancels_frees_its_place(client, served):
    model = served.host.models.get("mlp")
    model.requests.clear()
    model.gate, before = asyncio.Event(), model.cancelled
    try:
        done = threading.Event()
        x = np.zeros((1, 128), np.float32)
        call = client.async_infer("mlp", [given("x", x, "FP32")], lambda result, error: done.set(), headers=TOKEN)
        wait_until(lambda: model.requests)
        call.cancel()
        wait_until(lambda: model.cancelled == before + 1)
        assert done.wait(60)
    finally:
        served.set(model.gate)
        model.gate = None


def test_a_deadline_goes_with_the_request(client, served):
    model = served.host.models.get("mlp")
    x = np.zeros((1, 128), np.float32)
    client.infer("mlp", [given("x", x, "FP32")], headers=TOKEN, client_timeout=60)
    asked = model.requests[-1]
    assert 30 < asked.deadline - asked.arrival <= 60


class TestStreams:
    @pytest.fixture
    def stream(self, client):
        answers: list[Any] = []
        client.start_stream(lambda result, error: answers.append(error or result), headers=TOKEN)
        yield client, answers
        client.stop_stream()

    def test_answers_come_in_order_and_errors_do_not_end_it(self, stream):
        client, answers = stream
        for i in range(30):
            width = 3 if i == 7 else 16
            client.async_stream_infer(
                "identity", [given("x", np.full((1, width), i, np.float32), "FP32")], request_id=str(i)
            )
        wait_until(lambda: len(answers) == 30)
        assert isinstance(answers[7], triton.InferenceServerException)
        for i in (0, 6, 8, 29):
            assert answers[i].get_response().id == str(i)
            assert answers[i].as_numpy("y")[0, 0] == i

    def test_no_more_is_read_than_a_window(self, stream, served):
        client, answers = stream
        model = served.host.models.get("mlp")
        model.requests.clear()
        model.gate = asyncio.Event()
        try:
            for _ in range(40):
                client.async_stream_infer("mlp", [given("x", np.zeros((1, 128), np.float32), "FP32")])
            wait_until(lambda: len(model.requests) >= 8)
            assert len(model.requests) <= 10
        finally:
            served.set(model.gate)
            model.gate = None
        wait_until(lambda: len(answers) == 40)


def test_a_port_that_is_taken(served):
    async def main():
        with pytest.raises(SettingsInvalid, match="cannot be bound"):
            await serve_grpc(served.host.app.endpoint, host="127.0.0.1", port=served.port)

    asyncio.run(main())
