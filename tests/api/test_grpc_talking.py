"""Streams over gRPC: pieces of text as several answers, with Triton's own client."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from api.over_grpc import Served
from api.talking import Talker
from api.test_grpc import TOKEN, given
from sandseal_host.api.settings import ApiSettings
from support.waiting import wait_until

triton = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[grpc]")

ROWS = np.zeros((1, 128), np.float32)


@pytest.fixture
def talker() -> Talker:
    return Talker()


@pytest.fixture
def served(talker: Talker) -> Iterator[Served]:
    served = Served(ApiSettings(slow_s=1.0))
    served.host.models.models.append(talker)
    yield served
    served.close()


@pytest.fixture
def client(served: Served) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{served.port}") as client:
        yield client


def prompt(text: str) -> Any:
    return given("text_input", np.array([text.encode()], object), "BYTES")


@pytest.fixture
def stream(client):
    answers: list[Any] = []
    client.start_stream(lambda result, error: answers.append(error or result), headers=TOKEN)
    yield client, answers
    client.stop_stream(cancel_requests=True)


def text_of(answers: list[Any], request_id: str = "") -> str:
    found = [a for a in answers if a.get_response().id == request_id]
    return b"".join(a.as_numpy("text_output")[0] for a in found).decode()


def is_last(answer: Any) -> bool:
    return answer.get_response().parameters["triton_final_response"].bool_param


def test_a_unary_call_has_the_whole_text(client, talker):
    answer = client.infer("talker", [prompt("Grüß dich")], headers=TOKEN, parameters={"temperature": 0.0})
    assert answer.as_numpy("text_output")[0].decode() == "Grüß dich"
    assert talker.asked[0].sampling.temperature == 0


def test_pieces_and_which_is_the_last(stream):
    client, answers = stream
    client.async_stream_infer("talker", [prompt("Grüß")], request_id="7", enable_empty_final_response=True)
    wait_until(lambda: answers and is_last(answers[-1]))
    assert text_of(answers, "7") == "Grüß"
    assert [is_last(answer) for answer in answers] == [False] * 4 + [True]


def test_a_model_that_answers_once_has_a_last_answer_too(stream):
    client, answers = stream
    client.async_stream_infer("mlp", [given("x", ROWS, "FP32")], enable_empty_final_response=True)
    wait_until(lambda: answers)
    assert is_last(answers[0])


def test_texts_come_beside_each_other(stream, talker, served):
    client, answers = stream
    talker.steps = asyncio.Semaphore(0)
    for name in "ab":
        client.async_stream_infer("talker", [prompt(name * 4)], request_id=name)
    wait_until(lambda: len(talker.streams) == 2)
    for _ in range(20):
        served.call(talker.steps.release)
    wait_until(lambda: sum(map(is_last, answers)) == 2)
    assert answers[0].get_response().id == "a"
    assert (text_of(answers, "a"), text_of(answers, "b")) == ("aaaa", "bbbb")


def test_a_failure_ends_one_text_and_not_the_stream(stream, talker):
    client, answers = stream
    talker.breaks_at = 2
    client.async_stream_infer("talker", [prompt("once")], request_id="1")
    wait_until(lambda: answers and isinstance(answers[-1], triton.InferenceServerException))
    assert "the lane broke" in answers[-1].message()
    assert text_of(answers[:-1], "1") == "on"
    talker.breaks_at = None
    client.async_stream_infer("talker", [prompt("more")], request_id="2")
    wait_until(lambda: text_of([a for a in answers if hasattr(a, "get_response")], "2") == "more")


def test_who_leaves_frees_the_stream(client, talker):
    talker.steps = asyncio.Semaphore(0)
    client.start_stream(lambda result, error: None, headers=TOKEN)
    client.async_stream_infer("talker", [prompt("once")])
    wait_until(lambda: talker.streams)
    client.stop_stream(cancel_requests=True)
    wait_until(lambda: talker.streams[0].ended)


@pytest.mark.slow
def test_who_does_not_read_is_ended(served, talker):
    import grpc

    from sandseal_host.api.grpc import messages
    from sandseal_host.api.grpc.service import SERVICE

    talker.for_ever = "x" * 50_000
    tensor = messages.ModelInferRequest.InferInputTensor(
        name="text_input", datatype="BYTES", shape=[1], contents={"bytes_contents": [b"a"]}
    )
    sent = messages.ModelInferRequest(model_name="talker", inputs=[tensor]).SerializeToString()
    wait = threading.Event()

    def requests() -> Iterator[bytes]:
        yield sent
        wait.wait(60)

    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        call = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        answers = call(requests(), metadata=tuple(TOKEN.items()))
        next(answers)
        wait_until(lambda: talker.streams[0].ended)
        wait.set()
        answers.cancel()
