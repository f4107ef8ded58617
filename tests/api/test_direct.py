"""Inferences that uvicorn's protocol answers without a task."""

import asyncio
import gc
import json

import numpy as np
import pytest

from api.double import HostDouble, ModelsDouble, identity
from api.test_faces import BINARY, JSON, LENGTH, request
from api.test_infer import tensor
from api.wire import Face, answers, opened_on_a_loop, run, settled
from sandseal_host.api.direct import DirectCall
from sandseal_host.api.protocol import DataPlaneProtocol


class Connected:
    """A model whose answers wait for `gate`, and a connection to it that has been used once."""

    async def open(self) -> "Connected":
        self.model = identity("wide", "FP32", "batch", "n")
        self.host = HostDouble(ModelsDouble(self.model))
        face = Face(self.host.app, DataPlaneProtocol)
        self.connection, self.wire = face.connect()
        await self.ask(request(JSON))
        self.wire.written.clear()
        self.model.gate = self.gate = asyncio.Event()
        return self

    async def ask(self, sent: bytes) -> None:
        self.connection.data_received(sent)
        await settled(self.wire)

    def counted(self) -> dict[int, int]:
        return dict(self.host.metrics.requests.meter("wide", 1).statuses())


on_a_loop = opened_on_a_loop(Connected)


@on_a_loop
async def test_an_answer_needs_no_task(one):
    one.gate.set()
    one.connection.data_received(request(BINARY, LENGTH))
    assert isinstance(one.connection.cycle, DirectCall)
    assert not one.connection.tasks
    await settled(one.wire)
    (answer,) = answers(bytes(one.wire.written))
    assert answer.endswith(np.arange(3, dtype=np.float32).tobytes())


@on_a_loop
async def test_nothing_of_an_answered_request_waits_for_the_garbage_collector(one):
    one.gate.set()
    gc.collect()
    before = {id(each) for each in gc.get_objects()}
    gc.disable()
    try:
        for _ in range(20):
            await one.ask(request(JSON))
            await one.ask(request(b"{}"))
        calls = [each for each in gc.get_objects() if isinstance(each, DirectCall) and id(each) not in before]
        assert calls == [one.connection.cycle]
    finally:
        gc.enable()


@on_a_loop
async def test_a_client_that_leaves_takes_its_request_back(one):
    await one.ask(request(JSON))
    one.connection.connection_lost(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert one.model.cancelled == 1
    assert not one.wire.written
    assert one.counted() == {200: 1, 499: 1}


@on_a_loop
async def test_a_client_that_leaves_takes_all_back_that_it_sent(one):
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(JSON), JSON)
    call = request(chunk, length=b"Transfer-Encoding: chunked")  # which takes a task
    await one.ask(call + call)
    assert len(one.model.requests) == 2  # the one before, and the first of these
    await asyncio.sleep(0.1)
    one.connection.connection_lost(None)
    await settled(one.wire)
    assert one.model.cancelled == 1  # of the first; the second had not begun
    assert not one.connection.tasks
    assert not one.wire.written


@on_a_loop
async def test_the_next_request_waits_for_the_answer_of_the_first(one):
    await one.ask(request(JSON) + request(BINARY, LENGTH))
    assert one.wire.paused
    assert len(one.model.requests) == 2  # the one before, and this
    one.gate.set()
    await settled(one.wire)
    first, second = answers(bytes(one.wire.written))
    assert b"[1.0,2.0,3.0]" in first
    assert b"octet-stream" in second
    assert not one.wire.paused


@on_a_loop
async def test_a_shutdown_lets_it_end(one):
    await one.ask(request(JSON))
    one.connection.shutdown()
    assert not one.wire.closed
    one.gate.set()
    await settled(one.wire)
    assert one.wire.closed
    assert b"connection: close" in one.wire.written


@on_a_loop
async def test_a_connection_rests_for_as_long_as_it_may(one):
    connection = one.connection
    connection.timeout_keep_alive_handler()  # the timer of an earlier rest
    assert not one.wire.closed
    assert connection.timeout_keep_alive_task is not None
    connection.timeout_keep_alive = 0
    await one.ask(request(JSON))
    connection.timeout_keep_alive_handler()
    assert not one.wire.closed  # a request is being answered
    one.gate.set()
    await settled(one.wire)
    connection.timeout_keep_alive_handler()
    assert one.wire.closed


@on_a_loop
async def test_a_large_answer_is_rendered_on_a_thread(one):
    one.gate.set()
    row = list(range(40_000))
    body = json.dumps({"inputs": [tensor(shape=(2, 20_000), data=row)]}).replace(" ", "").encode()
    big = identity("big", "FP32", "batch", "n")
    big.run = lambda asked: tuple(type(x)("y", x.dtype, (4, 20_000), np.tile(x.data, (2, 1))) for x in asked.inputs)
    one.host.models.models.append(big)
    await one.ask(request(body, target=b"/v2/models/big/infer"))
    (answer,) = answers(bytes(one.wire.written))
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["outputs"][0]["data"] == [*row, *row]


@pytest.mark.parametrize("broken", [ValueError("broken"), KeyError()])
def test_a_failing_render_is_a_problem(broken):
    async def main():
        one = await Connected().open()
        one.gate.set()

        def fail(_):
            raise broken

        one.model.run = fail
        await one.ask(request(JSON))
        (answer,) = answers(bytes(one.wire.written))
        assert answer.startswith(b"HTTP/1.1 500")

    run(main())
