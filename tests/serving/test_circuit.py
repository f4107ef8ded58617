"""Circuits as tables of times, and stages behind them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from sandseal_host.errors import (
    CircuitOpen,
    DeadlineExpired,
    HostError,
    InputRefused,
    PluginBadOutput,
    PluginTimeout,
    PluginTrapped,
    QueueFull,
    RequestInvalid,
)
from sandseal_host.serving.circuit import Circuit, CircuitSettings, CircuitState
from sandseal_host.serving.guarded_stage import GuardedStage
from sandseal_host.tensors import Tensor
from sandseal_signing.stage import StageSpec
from sandseal_signing.tensor import DataType, TensorSpec
from support.serving import manifest, ready_model, request, tensor

SETTINGS = CircuitSettings(failures=3, pause_s=1.0, longest_pause_s=4.0)
CLOSED, OPEN, HALF = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN
WORKS, FAILS, UNKNOWN, REFUSED = "works", "fails", "unknown", "refused"
_WORKED = {WORKS: True, FAILS: False, UNKNOWN: None}

# Calls one after the other: when each is made, what comes of it, and the circuit's state right after.
TABLES = {
    "a plugin that works": [(0, WORKS, CLOSED), (1, WORKS, CLOSED)],
    "failures in a row open it": [(0, FAILS, CLOSED), (0, FAILS, CLOSED), (0, FAILS, OPEN), (0.9, REFUSED, OPEN)],
    "one that works between them": [(t, what, CLOSED) for t, what in enumerate([FAILS, FAILS, WORKS] * 4)],
    "what says nothing counts for nothing": [
        (0, FAILS, CLOSED), (0, UNKNOWN, CLOSED), (0, FAILS, CLOSED), (0, UNKNOWN, CLOSED), (0, FAILS, OPEN),
    ],
    "a probe that works closes it": [
        *[(0, FAILS, CLOSED)] * 2, (0, FAILS, OPEN), (1, WORKS, CLOSED), (1, FAILS, CLOSED), (1, FAILS, CLOSED),
    ],
    "pauses double with each probe that fails, to their bound": [
        *[(0, FAILS, CLOSED)] * 2, (0, FAILS, OPEN),
        (1, FAILS, OPEN), (2.9, REFUSED, OPEN),
        (3, FAILS, OPEN), (6.9, REFUSED, OPEN),
        (7, FAILS, OPEN), (10.9, REFUSED, OPEN), (11, WORKS, CLOSED),
    ],
    "after it closed, pauses begin anew": [
        *[(0, FAILS, CLOSED)] * 2, (0, FAILS, OPEN), (1, FAILS, OPEN), (3, WORKS, CLOSED),
        *[(4, FAILS, CLOSED)] * 2, (4, FAILS, OPEN), (4.9, REFUSED, OPEN), (5, WORKS, CLOSED),
    ],
    "a probe that says nothing lets the next one probe": [
        *[(0, FAILS, CLOSED)] * 2, (0, FAILS, OPEN), (1, UNKNOWN, HALF), (1, UNKNOWN, HALF), (1, WORKS, CLOSED),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_calls(name: str) -> None:
    circuit = Circuit(SETTINGS)
    for now, what, state in TABLES[name]:
        turn = circuit.enter(now)
        assert (turn is None) == (what == REFUSED), (now, what)
        if turn is not None:
            circuit.leave(turn, _WORKED[what], now)
        assert circuit.state(now) is state, (now, what)


def opened(now: float = 0.0) -> Circuit:
    circuit = Circuit(SETTINGS)
    for _ in range(SETTINGS.failures):
        circuit.leave(circuit.enter(now), False, now)
    return circuit


def test_one_call_probes_at_a_time() -> None:
    circuit = opened()
    probe = circuit.enter(1.0)
    assert probe is not None
    assert circuit.enter(1.0) is None
    circuit.leave(probe, True, 1.5)
    assert circuit.enter(1.5) is not None


@pytest.mark.parametrize("worked", [True, False])
def test_what_was_begun_before_it_opened_says_nothing(worked: bool) -> None:
    circuit = Circuit(SETTINGS)
    late = circuit.enter(0.0)
    for _ in range(SETTINGS.failures):
        circuit.leave(circuit.enter(0.0), False, 0.0)
    circuit.leave(late, worked, 0.5)
    assert (circuit.state(0.5), circuit.wait_s(0.5)) == (OPEN, 0.5)
    probe = circuit.enter(1.0)
    circuit.leave(late, worked, 1.0)
    assert circuit.enter(1.0) is None  # the probe still runs
    circuit.leave(probe, True, 1.0)
    assert circuit.state(1.0) is CLOSED


def test_when_to_come_back() -> None:
    circuit = opened(now=10.0)
    assert circuit.wait_s(10.25) == 0.75
    circuit.enter(11.0)
    assert circuit.wait_s(11.5) == 1.0  # the probe's outcome is awaited


class Scripted:
    """A stage whose calls end as the test says."""

    def __init__(self) -> None:
        self.next: HostError | Callable[[], Awaitable[None]] | None = None
        self.calls = 0
        self.closed = False

    async def apply(self, inputs, parameters: bytes, urgency: float, deadline: float):
        self.calls += 1
        if isinstance(self.next, HostError):
            raise self.next
        if self.next is not None:
            await self.next()
        return (tensor([9.0], "y"),)

    def close(self) -> None:
        self.closed = True


class Bench:
    """A guarded stage, the clock that it reads, and what runs behind it."""

    def __init__(self, on_failure: str = "refuse") -> None:
        spec = StageSpec(
            "plugins/p.wasm", "run", (TensorSpec("x", DataType.FP32, ("n",)),),
            (TensorSpec("y", DataType.FP32, ("n",)),), on_failure=on_failure,
        )  # fmt: skip
        self.now, self.runner = 0.0, Scripted()
        self.stage = GuardedStage(self.runner, spec, SETTINGS, clock=lambda: self.now)

    def call(self, ending: HostError | None = None, tenant: str = "t") -> tuple[tuple[Tensor, ...], bool]:
        self.runner.next = ending
        return asyncio.run(self.stage.run((tensor([1.0, 2.0]),), b"{}", 0.0, 9e9, tenant))

    def fail(self, times: int = SETTINGS.failures, tenant: str = "t") -> None:
        for _ in range(times):
            with pytest.raises(PluginTrapped):
                self.call(PluginTrapped("plugin 'p' trapped"), tenant)


@pytest.mark.parametrize("kind", [PluginTrapped, PluginTimeout, PluginBadOutput])
def test_the_plugins_own_failures_open_it(kind: type[HostError], caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    for _ in range(SETTINGS.failures):
        with pytest.raises(kind):
            bench.call(kind("no"))
    bench.now = 0.25
    with pytest.raises(CircuitOpen, match=r"'plugins/p\.wasm' failed 3 times in a row") as caught:
        bench.call()
    assert caught.value.retry_after == 0.75
    assert caught.value.data == {"plugin": "plugins/p.wasm", "failures": 3}
    assert bench.runner.calls == SETTINGS.failures
    assert "left alone for a while, next try in 1 s: no" in caplog.text
    statistics = bench.stage.statistics()
    assert (statistics.circuit_open, statistics.opened_total, statistics.refused_total) == (1, 1, 1)
    bench.now = 1.0
    assert not bench.call()[1]
    assert bench.stage.statistics().circuit_open == 0


@pytest.mark.parametrize("kind", [InputRefused, RequestInvalid, DeadlineExpired, QueueFull])
def test_what_is_not_the_plugins_failure_never_opens_it(kind: type[HostError]) -> None:
    bench = Bench()
    for _ in range(5 * SETTINGS.failures):
        with pytest.raises(kind):
            bench.call(kind("no"))
    assert bench.stage.statistics().failures_in_row == 0


def test_an_input_that_is_refused_shows_that_the_plugin_works() -> None:
    bench = Bench()
    bench.fail(2)
    with pytest.raises(InputRefused):
        bench.call(InputRefused("no faces"))
    bench.fail(2)
    assert bench.stage.statistics().opened_total == 0


def test_one_tenant_shuts_nobody_else_out() -> None:
    bench = Bench()
    bench.fail(tenant="attacker")
    with pytest.raises(CircuitOpen):
        bench.call(tenant="attacker")
    assert bench.stage.impediment() is not None  # nobody else was seen yet
    assert not bench.call(tenant="neighbour")[1]
    assert bench.stage.impediment() is None
    assert bench.stage.statistics().circuit_open == 1
    bench.fail(tenant="neighbour")
    assert bench.stage.impediment() is not None


def test_one_tenant_has_no_plugin_left_out_for_others() -> None:
    bench = Bench("passthrough")
    for _ in range(SETTINGS.failures):
        assert bench.call(PluginTrapped("no"), "attacker")[1]
    assert bench.call(tenant="attacker")[1]
    assert not bench.call(tenant="neighbour")[1]


def test_a_cancelled_probe_lets_the_next_one_probe() -> None:
    bench = Bench()
    bench.fail()
    bench.now = 1.0

    async def main() -> None:
        bench.runner.next = asyncio.Event().wait
        probe = asyncio.create_task(bench.stage.run((tensor([1.0]),), b"{}", 0.0, 9e9, "t"))
        await asyncio.sleep(0)
        with pytest.raises(CircuitOpen):
            await bench.stage.run((tensor([1.0]),), b"{}", 0.0, 9e9, "t")
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
        bench.runner.next = None
        assert not (await bench.stage.run((tensor([1.0]),), b"{}", 0.0, 9e9, "t")).skipped

    asyncio.run(main())
    assert bench.stage.statistics().circuit_open == 0


def test_a_stage_that_may_be_passed_over() -> None:
    bench = Bench("passthrough")
    for _ in range(SETTINGS.failures + 1):  # the last one is not tried any more
        (passed,), skipped = bench.call(PluginTrapped("plugin 'p' trapped"))
        assert skipped
        assert (passed.name, passed.data.tolist()) == ("y", [1.0, 2.0])
    assert bench.runner.calls == SETTINGS.failures
    assert bench.stage.impediment() is None
    assert bench.stage.statistics().skipped_total == SETTINGS.failures + 1
    bench.now = 1.0
    with pytest.raises(InputRefused):
        bench.call(InputRefused("no faces"))


def test_it_stands_in_the_way_only_while_nothing_is_tried() -> None:
    bench = Bench()
    assert bench.stage.impediment() is None
    bench.fail()
    assert isinstance(bench.stage.impediment(), CircuitOpen)
    bench.now = 1.0
    assert bench.stage.impediment() is None  # so that whoever asks for readiness sends the probe
    bench.stage.close()
    assert bench.runner.closed


def test_a_model_behind_stages() -> None:
    pre, post = Scripted(), Scripted()

    async def main() -> None:
        described = manifest(staged=True)
        passing = replace(described.post, inputs=described.post.outputs, on_failure="passthrough")
        model = ready_model(pre=None, post=post, described=replace(described, pre=None, post=passing))
        post.next = PluginTrapped("trapped")
        response = await model.infer(request(7))
        assert (response.skipped, [t.name for t in response.outputs]) == (("post",), ["label"])
        assert model.statistics().post.skipped_total == 1
        refusing = ready_model(pre=pre, described=manifest(staged=True))
        pre.next = PluginTrapped("trapped")
        for _ in range(CircuitSettings().failures):
            assert refusing.impediment() is None
            with pytest.raises(PluginTrapped):
                await refusing.infer(request(7))
        with pytest.raises(CircuitOpen):
            await refusing.infer(request(7))
        assert isinstance(refusing.impediment(), CircuitOpen)
        assert refusing.statistics().pre.circuit_open == 1

    asyncio.run(main())
