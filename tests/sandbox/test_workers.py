"""Sandbox workers: who gets whose bytes, order, bounds, cancellation, accounting. Processes and guests are real."""

import contextlib
import gc
import math
import time
import weakref
from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pytest

from sandbox.guests import ALIAS, DONE, ECHO, MEMORY, data, floats, guest, refuse, stage_spec, tensor_spec, texts
from sandbox.worker_host import WorkerHost
from sandseal_host.errors import (
    DeadlineExpired,
    InputRefused,
    PluginBadOutput,
    PluginInvalid,
    PluginOutOfMemory,
    PluginTimeout,
    PluginTrapped,
    QueueFull,
    RequestInvalid,
    ShuttingDown,
)
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.tensors import Tensor, unpack_bytes
from sandseal_signing.tensor import DataType
from support.waiting import wait_until

pytestmark = pytest.mark.slow  # each starts processes

SPIN = guest(f"(loop $l (br $l)) {DONE}")
# Loops at this input, until its caller leaves.
ENDLESS = 667.0
SLOW = guest(
    f"""(if (f32.eq (f32.load (i32.load offset=8 (call $in (local.get $call) (i32.const 0)))) (f32.const {ENDLESS}))
    (then (loop $l (br $l)))) {ECHO}"""
)
LOG = '(import "sandseal" "log" (func $log (param i32 i32 i32)))'


@pytest.fixture(scope="module")
def lone(engine: SandboxEngine):
    """One worker, so that calls run one after another."""
    with WorkerHost(engine, 1) as host:
        yield host


def stuck(host: WorkerHost, **options):
    """A stage, and a call of it that runs until it is cancelled."""
    stage = host.stage(SLOW, stage_spec(time_ms=60_000), label="stuck", **options)
    held = host.submit(stage, floats(ENDLESS))
    wait_until(lambda: host.workers.statistics().handed)
    return stage, held


def leave(held) -> None:
    """End such a call."""
    held.cancel()
    with pytest.raises(CancelledError):
        held.result(60)


def test_tensors_pass_unchanged(host: WorkerHost) -> None:
    stage = host.stage()
    (y,) = host.call(stage, floats(1, 2, 3))
    assert (y.name, y.dtype, y.shape, y.data.tolist()) == ("y", DataType.FP32, (3,), [1, 2, 3])
    assert y.data.flags.writeable
    (y,) = host.call(stage, floats())
    assert y.shape == (0,)
    stage.close()


def test_each_byte_is_copied_in_once_and_out_once(host: WorkerHost) -> None:
    stage = host.stage()
    for count in (3, 0, 1000):
        host.call(stage, floats(*range(count)))
    counts = stage.plugin_statistics()
    assert (counts.in_bytes_total, counts.out_bytes_total) == (4 * 1003, 4 * 1003)
    stage.close()


def test_bytes_elements_pass_unchanged(host: WorkerHost) -> None:
    text = tensor_spec("x", "BYTES", "n"), tensor_spec("y", "BYTES", "n")
    stage = host.stage(spec=stage_spec(inputs=text[:1], outputs=text[1:]))
    (y,) = host.call(stage, texts(b"", b"one", b"\0" * 5000))
    assert unpack_bytes(y) == [b"", b"one", b"\0" * 5000]
    many = [str(i).encode() for i in range(5000)]  # which are checked on a thread
    (y,) = host.call(stage, texts(*many))
    assert unpack_bytes(y) == many
    stage.close()


def test_everybody_gets_their_own_bytes(host: WorkerHost) -> None:
    """Sixteen threads and four plugins, sizes from nothing to 300 KB; every answer is made of its own call's bytes."""
    negate = """(local $i i32) (local $end i32) (local $at i32)
      (local.set $at (i32.load offset=8 (call $in (local.get $call) (i32.const 0))))
      (local.set $end (i32.wrap_i64 (i64.load offset=16 (call $in (local.get $call) (i32.const 0)))))
      (local.set $end (i32.add (local.get $at) (local.get $end)))
      (block $done (loop $next (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (f32.store (local.get $at) (f32.neg (f32.load (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 4))) (br $next)))"""
    kinds = [(host.stage(), 1), (host.stage(guest(f"{negate} {ALIAS} {DONE}")), -1)] * 2

    def hammer(thread: int) -> None:
        random = np.random.default_rng(thread)
        for _ in range(25):
            stage, sign = kinds[random.integers(len(kinds))]
            sizes = random.choice([0, 1, 17, 4096, 75_000], size=4)
            tensors = [Tensor("x", DataType.FP32, (n,), random.random(n, np.float32)) for n in sizes]
            waiting = [host.submit(stage, tensor, urgency=random.random()) for tensor in tensors]
            for sent, answer in zip(tensors, waiting, strict=True):
                (got,) = answer.result(60)
                assert np.array_equal(got.data, sign * sent.data)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(hammer, range(16)))
    statistics = [stage.plugin_statistics() for stage, _ in kinds[:2]]
    assert sum(s.calls for s in statistics) == 1600
    assert not any(s.failed or s.lost for s in statistics)
    for stage, _ in kinds[:2]:
        stage.close()


def test_large_tensors_pass_piece_by_piece(host: WorkerHost) -> None:
    """Some of the calls are taken back while they are on their way."""
    stage = host.stage(spec=stage_spec(memory_mib=60, time_ms=2000))
    tensors = [Tensor("x", DataType.FP32, (3_000_000,), np.full(3_000_000, i, np.float32)) for i in range(6)]
    for sent, answer in zip(tensors, [host.submit(stage, tensor) for tensor in tensors], strict=True):
        assert np.array_equal(answer.result(60)[0].data, sent.data)
    held = [host.submit(stage, tensor) for tensor in tensors]
    for call in held[::2]:
        call.cancel()
    for sent, call in list(zip(tensors, held, strict=True))[1::2]:
        assert np.array_equal(call.result(60)[0].data, sent.data)
    stage.close()


def test_nothing_of_a_call_is_left_in_the_region(host: WorkerHost) -> None:
    stage, refusing = host.stage(), host.stage(guest(refuse("no"), extra=data(b"no")))
    marked = floats(*[1234.5] * 500_000)  # more than is overwritten in place
    spec = stage_spec(memory_mib=16)
    large = host.stage(spec=spec)
    for _ in range(10):
        host.call(large, marked)
        host.call(stage, floats(*[1234.5] * 100))
        with pytest.raises(InputRefused, match="no"):
            host.call(refusing, floats(*[1234.5] * 1000))
    for worker in host.workers._dispatcher.ready:
        for slot in range(8):
            assert not worker.region.array(slot, 0, 8 << 20, np.dtype(np.uint8)).any()
    for used in (stage, refusing, large):
        used.close()


@pytest.mark.parametrize(
    ("module", "kind", "trap"),
    [
        (guest("unreachable"), PluginTrapped, "unreachable"),
        (SPIN, PluginTimeout, "interrupt"),
        (guest("(i32.const 999)"), PluginBadOutput, None),
    ],
    ids=["trap", "loop", "nonsense"],
)
def test_errors_come_back_whole(host: WorkerHost, module: bytes, kind: type, trap: str | None) -> None:
    stage = host.stage(module, stage_spec(time_ms=50), label="m/p.wasm")
    with pytest.raises(kind, match=r"plugin 'm/p\.wasm'") as raised:
        host.call(stage, floats(1))
    assert type(raised.value) is kind
    assert raised.value.hint
    assert raised.value.data["plugin"] == "m/p.wasm"
    assert raised.value.data.get("trap") == trap
    statistics = stage.plugin_statistics()
    assert (statistics.calls, statistics.failed, statistics.lost) == (1, 1, 0)
    assert statistics.traps == ({trap: 1} if trap else {})
    assert host.workers.statistics().restarts == 0
    stage.close()


def test_inputs_that_are_not_the_specs_never_reach_a_worker(host: WorkerHost) -> None:
    stage = host.stage()
    done = host.workers.statistics().done
    with pytest.raises(RequestInvalid):
        host.call(stage)
    with pytest.raises(PluginOutOfMemory, match="no room for a call of 4"):
        host.call(stage, floats(*[0] * (1 << 20)))
    assert host.workers.statistics().done == done
    assert stage.plugin_statistics().refused == 1
    stage.close()


def test_a_plugin_that_cannot_be_used_is_refused_when_it_is_opened(host: WorkerHost) -> None:
    with pytest.raises(PluginInvalid, match="ABI version 2"):
        host.stage(guest(abi='(func (export "sandseal_abi") (result i32) (i32.const 2))'))
    with pytest.raises(PluginTimeout):
        host.stage(guest(extra='(func (export "_initialize") (loop $l (br $l)))'), stage_spec(time_ms=50))
    with pytest.raises(PluginOutOfMemory, match="sandbox worker") as raised:
        host.stage(spec=stage_spec(memory_mib=4000))
    assert "SANDSEAL_PLUGIN_MEMORY_MIB=4256" in raised.value.hint


def test_lines_reach_the_log_with_their_plugin(engine: SandboxEngine) -> None:
    lines: list[tuple[str, int, str]] = []
    body = f"(call $log (i32.const 2) (i32.const 1024) (i32.const 5)) {ALIAS} {DONE}"
    flood = f"(local $i i32) (loop $l (call $log (i32.const 0) (i32.const 1024) (i32.const 5)) (br $l)) {DONE}"
    with WorkerHost(engine, 1, log=lambda *line: lines.append(line)) as host:
        spec, extra = stage_spec(imports=("log",)), data(b"hi \x1b!")
        quiet, loud = (
            host.stage(guest(b, imports=LOG, extra=extra), spec, label=n) for n, b in (("q", body), ("l", flood))
        )
        host.call(quiet, floats(1))
        assert lines == [("q", 30, "hi \\x1b!")]
        with pytest.raises(PluginTimeout):
            host.call(loud, floats(1))
        assert loud.plugin_statistics().log_lines < 100 < loud.plugin_statistics().log_dropped
        quiet.close()
        loud.close()


def test_the_most_urgent_is_handed_over_first(lone: WorkerHost) -> None:
    stage, held = stuck(lone)
    order: list[float] = []
    waiting = []
    for urgency in (3.0, 1.0, 2.0):
        call = lone.submit(stage, floats(1), urgency=urgency)
        call.add_done_callback(lambda _, urgency=urgency: order.append(urgency))
        waiting.append(call)
    wait_until(lambda: lone.workers.statistics().waiting == 3)
    leave(held)
    for call in waiting:
        call.result(60)
    assert order == [1.0, 2.0, 3.0]
    stage.close()


def test_short_calls_are_handed_over_together(lone: WorkerHost) -> None:
    echo = lone.stage()
    echo._stage.call_s = 1e-5  # as it would become on a machine that has nothing else to do
    held = [lone.submit(echo, floats(i)) for i in range(50)]
    assert [call.result(60)[0].data.tolist() for call in held] == [[i] for i in range(50)]
    echo.close()


def test_a_full_queue_refuses(lone: WorkerHost) -> None:
    stage, held = stuck(lone, max_waiting=2)
    cancelled = lone.workers.statistics().cancelled
    waiting = [lone.submit(stage, floats(1)) for _ in range(2)]
    with pytest.raises(QueueFull):
        lone.call(stage, floats(1))
    for call in waiting:
        call.cancel()
    wait_until(lambda: lone.workers.statistics().cancelled == cancelled + 2)
    leave(held)
    stage.close()


def test_an_expired_call_is_not_handed_over(lone: WorkerHost) -> None:
    stage, held = stuck(lone)
    began, expired = time.monotonic(), lone.workers.statistics().expired
    with pytest.raises(DeadlineExpired):
        lone.call(stage, floats(1), deadline=began + 0.05)
    assert not held.done()
    with pytest.raises(DeadlineExpired):
        lone.call(stage, floats(1), deadline=began)
    leave(held)
    assert lone.workers.statistics().expired == expired + 2
    wait_until(lambda: stage.plugin_statistics().calls == 1)
    stage.close()


def test_a_caller_who_leaves_frees_the_worker(lone: WorkerHost) -> None:
    stage, held = stuck(lone)
    leave(held)
    echo = lone.stage()
    lone.call(echo, floats(1))
    statistics = stage.plugin_statistics()
    assert (statistics.calls, statistics.cancelled, statistics.failed, statistics.lost) == (1, 1, 0, 0)
    stage.close()
    echo.close()


def test_closing_a_stage_refuses_what_waits_and_lets_run_what_runs(lone: WorkerHost) -> None:
    stage, held = stuck(lone)
    waiting = lone.submit(stage, floats(1))
    with ThreadPoolExecutor(1) as thread:
        closing = thread.submit(stage.close)
        with pytest.raises(ShuttingDown):
            waiting.result(60)
        assert not closing.done()
        leave(held)
        closing.result(60)
    with pytest.raises(ShuttingDown):
        lone.call(stage, floats(1))
    echo = lone.stage()
    lone.call(echo, floats(1))
    echo.close()
    stage.close()


def test_nothing_holds_a_call_once_it_is_answered(host: WorkerHost) -> None:
    """No error in a cycle: inputs can be large and refusals frequent."""
    echo, refusing = host.stage(), host.stage(guest("(i32.const 1)"))
    held = []
    gc.disable()
    try:
        for stage in (echo, refusing):
            tensor = floats(1, 2, 3)
            held.append(weakref.ref(tensor.data))
            with contextlib.suppress(InputRefused):
                host.call(stage, tensor)
            del tensor
        wait_until(lambda: [ref() is None for ref in held] == [True, True])
    finally:
        gc.enable()
    echo.close()
    refusing.close()


def test_usage_is_accounted(host: WorkerHost) -> None:
    grow = f"(drop (memory.grow (i32.const 20))) {ALIAS} {DONE}"
    stage = host.stage(guest(grow, memory=MEMORY))
    for _ in range(3):
        host.call(stage, floats(1))
    statistics = stage.plugin_statistics()
    assert (statistics.calls, statistics.memory_bytes) == (3, 22 * 65_536)
    assert 0 < statistics.cpu_s <= statistics.wall_s < 10
    assert not math.isnan(statistics.wall_s)
    stage.close()


def test_many_tensors(host: WorkerHost) -> None:
    names = [f"t{i}" for i in range(300)]
    spec = stage_spec(
        inputs=tuple(tensor_spec(name, "FP32", 1) for name in names),
        outputs=tuple(tensor_spec(f"o{i}", "FP32", 1) for i in range(300)),
    )
    body = """(local $i i32) (loop $next
      (call $alias (call $out (local.get $call) (local.get $i)) (call $in (local.get $call) (local.get $i)))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 300))))"""
    stage = host.stage(guest(f"{body} {DONE}"), spec)
    outputs = host.call(stage, *(floats(float(i), name=name) for i, name in enumerate(names)))
    assert [output.data.tolist() for output in outputs] == [[i] for i in range(300)]
    stage.close()
    with pytest.raises(PluginInvalid, match="more than 512"):
        host.stage(spec=stage_spec(inputs=spec.inputs * 2))


def test_more_plugins_than_a_socket_takes_messages_at_once(host: WorkerHost) -> None:
    stages = [host.stage(label=f"p{i}") for i in range(150)]
    for i, stage in enumerate(stages[::10]):
        assert host.call(stage, floats(i))[0].data.tolist() == [i]
    assert host.workers.statistics().restarts == 0
    for stage in stages:
        stage.close()
