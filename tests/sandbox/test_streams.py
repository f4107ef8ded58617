"""Stages of mode `stream`: one instance as long as one stream, on threads and in worker processes."""

import asyncio
import contextlib
import os
import signal
import sys
import time

import pytest

from sandbox.guests import ALIAS, DONE, floats, guest, refuse, stage_spec
from sandbox.worker_host import WorkerHost, worker_pids
from sandseal_host.errors import (
    InputRefused,
    NotReady,
    PluginBadOutput,
    PluginLost,
    PluginTimeout,
    PluginTrapped,
    QueueFull,
    ShuttingDown,
)
from sandseal_host.sandbox import SandboxEngine, StagePool
from sandseal_host.sandbox.stream_seats import MAX_STREAMS

SPEC = stage_spec(mode="stream", time_ms=100)
RESET = """
(global $calls (mut i32) (i32.const 0)) (global $resets (mut i32) (i32.const 0))
(func (export "sandseal_reset")
  (global.set $top (i32.const 4096)) (global.set $resets (i32.add (i32.const 1) (global.get $resets))))
"""
X = "(i32.load offset=8 (call $in (local.get $call) (i32.const 0)))"


def put(index: int, value: str) -> str:
    return f"(f32.store offset={4 * index} {X} (f32.convert_i32_u {value}))"


def streaming(body: str, **parts: str) -> bytes:
    """A guest that answers with how often this instance was called and reset, and the call's flags."""
    count = "(global.set $calls (i32.add (i32.const 1) (global.get $calls)))"
    answer = put(0, "(global.get $calls)") + put(1, "(global.get $resets)")
    flags = put(2, "(i32.load offset=40 (local.get $call))")
    return guest(count + body + answer + flags + ALIAS + DONE, extra=RESET + parts.pop("extra", ""), **parts)


def is_input(value: float) -> str:
    return f"(f32.eq (f32.load {X}) (f32.const {value}))"


TRAP, LOOP, REFUSE, SHORT, COUNT = 666.0, 667.0, 668.0, 669.0, 1.0
GUEST = streaming(
    f"(if {is_input(TRAP)} (then unreachable)) (if {is_input(LOOP)} (then (loop $l (br $l))))"
    f"(if {is_input(REFUSE)} (then {refuse('', '(return (i32.const 1))')}))"
    f"(if {is_input(SHORT)} (then (return (i32.const 999))))"
)


class Host:
    """Streams of one guest, on either kind of host, called from a test's thread."""

    def __init__(self, run, stage) -> None:
        self.run, self.stage = run, stage

    def open(self, tenant: str = "t", target_s: float = 0.2):
        async def make():
            return self.stage.stream(b"{}", target_s, tenant)

        return self.run(make())

    def call(self, stream, value=COUNT, **options):
        (y,) = self.run(stream.call((floats(value, 0, 0),), **options))
        return y.data.tolist()

    def end(self, stream) -> None:
        async def close():
            stream.close()

        self.run(close())


@pytest.fixture(params=["threads", pytest.param("workers", marks=pytest.mark.slow)])
def streams_of(request, engine: SandboxEngine):
    """Makes the guest's streams under a spec."""
    with contextlib.ExitStack() as stack:
        if request.param == "threads":
            run = stack.enter_context(asyncio.Runner()).run
        else:
            host = request.getfixturevalue("host")
            run = host.run

        def make(spec) -> Host:
            threads = request.param == "threads"
            stage = StagePool(engine.compile(GUEST, spec), 2) if threads else host.stage(GUEST, spec)
            stack.callback(stage.close)
            return Host(run, stage)

        yield make


@pytest.fixture
def streams(streams_of) -> Host:
    return streams_of(SPEC)


def test_one_instance_as_long_as_one_stream(streams: Host) -> None:
    first, second = streams.open(), streams.open()
    assert streams.call(first) == [1, 0, 1]
    assert streams.call(second) == [1, 0, 1]
    assert streams.call(first) == [2, 1, 0]
    assert streams.call(first, last=True) == [3, 2, 2]
    assert streams.call(second) == [2, 1, 0]
    with pytest.raises(NotReady, match="is closed"):
        streams.call(first)
    streams.end(second)
    streams.end(second)
    assert streams.call(streams.open(), last=True) == [1, 0, 3]


@pytest.mark.parametrize(("value", "error"), [(TRAP, PluginTrapped), (LOOP, PluginTimeout), (SHORT, PluginBadOutput)])
def test_a_stream_fails_alone(streams: Host, value: float, error: type[Exception]) -> None:
    good, bad = streams.open(), streams.open()
    assert streams.call(good) == streams.call(bad) == [1, 0, 1]
    with pytest.raises(error):
        streams.call(bad, value)
    with pytest.raises(NotReady):
        streams.call(bad)
    assert streams.call(good) == [2, 1, 0]
    streams.end(good)


def test_a_refusal_leaves_the_instance(streams: Host) -> None:
    stream = streams.open()
    with pytest.raises(InputRefused):
        streams.call(stream, REFUSE)
    assert streams.call(stream) == [2, 1, 0]
    streams.end(stream)


def test_a_caller_that_leaves_ends_its_call(streams_of) -> None:
    streams = streams_of(stage_spec(mode="stream", time_ms=60_000))

    async def leave(stream) -> None:
        call = asyncio.ensure_future(stream.call((floats(LOOP, 0, 0),)))
        await asyncio.sleep(0.01)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call

    stream = streams.open()
    streams.run(leave(stream))
    with pytest.raises(NotReady):
        streams.call(stream)


@pytest.fixture
def lone(engine: SandboxEngine):
    if sys.platform != "linux":
        pytest.skip("sandbox workers need Linux")
    with WorkerHost(engine, 1) as host:
        yield host


@pytest.mark.slow
def test_streams_of_one_worker_are_bounded(lone: WorkerHost) -> None:
    stage = lone.stage(GUEST, SPEC)
    streams = Host(lone.run, stage)
    opened = [streams.open("first") for _ in range(MAX_STREAMS * 3 // 4)]
    assert all(streams.call(stream) == [1, 0, 1] for stream in opened)
    with pytest.raises(QueueFull, match="48 streams of one tenant are in plugins, as many as may be"):
        streams.call(streams.open("first"))
    opened += [streams.open("other") for _ in range(MAX_STREAMS // 4)]
    assert all(streams.call(stream) == [1, 0, 1] for stream in opened[-MAX_STREAMS // 4 :])
    with pytest.raises(QueueFull, match="no sandbox worker has room for a stream"):
        streams.call(streams.open("other"))
    streams.end(opened.pop())
    assert streams.call(streams.open("other")) == [1, 0, 1]
    (y,) = lone.call(stage, floats(1, 0, 0))
    assert y.data.tolist() == [1, 0, 0]

    async def all_at_once():
        return await asyncio.gather(*(stream.call((floats(1, 0, 0),)) for stream in opened))

    assert [y.data.tolist() for (y,) in lone.run(all_at_once())] == [[2, 1, 0]] * (MAX_STREAMS - 1)
    stage.close()
    with pytest.raises(ShuttingDown):
        streams.call(opened[0])


@pytest.mark.slow
def test_calls_of_streams_leave_other_calls_their_turn(lone: WorkerHost) -> None:
    step = "(global.set $i (i32.add (global.get $i) (i32.const 1)))"
    wasm = streaming(
        f"(global.set $i (i32.const 0)) (loop $l {step} (br_if $l (i32.lt_u (global.get $i) (i32.const 3000000))))",
        extra="(global $i (mut i32) (i32.const 0))",
    )
    stage = lone.stage(wasm, stage_spec(mode="stream", time_ms=5000))
    plain = lone.stage()
    streams = Host(lone.run, stage)
    opened = [streams.open(target_s=600.0) for _ in range(40)]
    for stream in opened:
        streams.call(stream)
    order = []

    async def note(call, name) -> None:
        await call
        order.append(name)

    async def flood() -> None:
        calls = [note(stream.call((floats(1, 0, 0),)), "stream") for stream in opened]
        await asyncio.gather(*calls, note(plain.apply((floats(1),), b"{}", time.monotonic(), float("inf")), "plain"))

    lone.run(flood())
    assert order.index("plain") < 10  # behind what the worker was handed before, and no more


@pytest.mark.slow
def test_streams_leave_half_of_a_workers_memory(engine: SandboxEngine) -> None:
    if sys.platform != "linux":
        pytest.skip("sandbox workers need Linux")
    large = streaming("", memory='(memory (export "memory") 512)')  # 32 MiB
    with WorkerHost(engine, 1, memory_mib=512) as host:
        streams = Host(host.run, host.stage(large, stage_spec(mode="stream", memory_mib=32)))
        for _ in range(3):  # of 128 MiB, half of what a worker has to give
            streams.call(streams.open("first"))
        with pytest.raises(QueueFull, match="3 streams of one tenant"):
            streams.call(streams.open("first"))
        streams.call(streams.open("other"))
        with pytest.raises(QueueFull, match="no sandbox worker has room for a stream"):
            streams.call(streams.open("other"))
        assert host.call(host.stage(), floats(1))


def test_streams_on_threads_are_bounded(engine: SandboxEngine) -> None:
    pool = StagePool(engine.compile(GUEST, SPEC), 1)
    with asyncio.Runner() as runner:
        streams = Host(runner.run, pool)
        opened = [streams.open("first") for _ in range(MAX_STREAMS * 3 // 4)]
        assert all(streams.call(stream) == [1, 0, 1] for stream in opened)
        with pytest.raises(QueueFull, match="48 streams of one tenant"):
            streams.call(streams.open("first"))
        opened += [streams.open("other") for _ in range(MAX_STREAMS // 4)]
        assert all(streams.call(stream) == [1, 0, 1] for stream in opened[-MAX_STREAMS // 4 :])
        with pytest.raises(QueueFull, match="no room for a stream"):
            streams.call(streams.open("other"))
        streams.end(opened.pop())
        with pytest.raises(PluginTrapped):
            streams.call(opened.pop(), TRAP)
        assert streams.call(streams.open("other")) == streams.call(streams.open("other")) == [1, 0, 1]
        for stream in opened:
            streams.end(stream)
    pool.close()


@pytest.mark.slow
def test_streams_are_lost_with_their_worker(engine: SandboxEngine) -> None:
    before = worker_pids()
    with WorkerHost(engine, 1) as host:
        streams = Host(host.run, host.stage(GUEST, SPEC))
        stream = streams.open()
        assert streams.call(stream) == [1, 0, 1]
        (worker,) = worker_pids() - before
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(PluginLost, match="was lost with the worker process of its stream"):
            streams.call(stream)
        while not host.workers.working:
            time.sleep(0.01)
        assert streams.call(streams.open()) == [1, 0, 1]
