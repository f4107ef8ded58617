"""What a gRPC client may take of the host."""

import threading
import time
from collections.abc import Iterator

import grpc
import numpy as np
import pytest

from api.over_grpc import Served
from sandseal_host.api.grpc import messages
from sandseal_host.api.grpc import stream as streams
from sandseal_host.api.grpc.service import SERVICE
from sandseal_host.api.settings import ApiSettings

TOKEN = (("authorization", "Bearer root"),)
CALLS = 4


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served(ApiSettings(slow_s=1.0, max_calls=CALLS))
    yield served
    served.close()


@pytest.fixture
def channel(served):
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{served.port}", options) as channel:
        yield channel


def after(event: threading.Event, *sent: bytes) -> Iterator[bytes]:
    yield from sent
    event.wait(60)


def wide(rows: int, width: int) -> bytes:
    x = np.zeros((rows, width), np.int64)
    tensor = messages.ModelInferRequest.InferInputTensor(name="x", datatype="INT64", shape=x.shape)
    asked = messages.ModelInferRequest(model_name="wide", inputs=[tensor], raw_input_contents=[x.tobytes()])
    return asked.SerializeToString()


def test_a_message_that_does_not_come(channel):
    end = threading.Event()
    with pytest.raises(grpc.RpcError) as refusal:
        channel.stream_unary(f"/{SERVICE}/ModelInfer")(after(end), metadata=TOKEN, timeout=60)
    end.set()
    assert dict(refusal.value.trailing_metadata())["sandseal-code"] == "too_slow"


@pytest.mark.slow
def test_a_stream_may_rest(channel):
    end = threading.Event()
    stream = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")(after(end, wide(1, 1)), metadata=TOKEN, timeout=60)
    answers = [next(stream)]
    time.sleep(1.5)
    end.set()
    assert len([*answers, *stream]) == 1


@pytest.mark.slow
def test_a_stream_whose_answers_nobody_reads_is_ended(channel, served, monkeypatch):
    model, large = served.host.models.get("wide"), wide(1, 500_000)
    model.requests.clear()
    ended, abort = threading.Event(), streams.abort

    async def abort_and_tell(*arguments) -> None:
        ended.set()
        await abort(*arguments)

    monkeypatch.setattr(streams, "abort", abort_and_tell)
    stream = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")(iter([large] * 30), metadata=TOKEN, timeout=60)
    assert ended.wait(60)
    with pytest.raises(grpc.RpcError) as refusal:
        list(stream)
    assert dict(refusal.value.trailing_metadata())["sandseal-code"] == "too_slow"
    assert len(model.requests) < 30


def test_calls_at_once(channel, served):
    ends, calls = threading.Event(), []
    for _ in range(CALLS):
        calls.append(
            channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")(after(ends, wide(1, 1)), metadata=TOKEN, timeout=60)
        )
        next(calls[-1])
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as other, pytest.raises(grpc.RpcError) as full:
        other.unary_unary(f"/{SERVICE}/ServerLive")(b"", timeout=60)
    ends.set()
    assert full.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert [len(list(call)) for call in calls] == [0] * CALLS


def test_a_limit_that_no_message_reaches():
    Served(ApiSettings(max_body_bytes=1 << 50)).close()
