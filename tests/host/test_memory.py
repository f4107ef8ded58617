"""A host that runs short of memory: who goes, who stays, and what is refused."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from sandseal_host.errors import Evicted, MemoryExhausted, ModelUnknown, Revoked, SequenceLost
from sandseal_host.lifecycle.evictions import LOOK_S
from sandseal_host.runtime import cpu
from sandseal_host.runtime.memory import DeviceMemory
from sandseal_host.serving import live
from sandseal_host.serving.request import Step
from support.living_host import LivingHost, living_host
from support.onnx_models import mlp, summing
from support.serving import request, tensor

MIB = 1 << 20


class Machine:
    """What the system says of its memory: 100 MiB, of which each ready model takes 30.

    Attributes:
        others: MiB that other processes hold.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host: LivingHost | None = None
        self.others = 30
        monkeypatch.setattr(cpu, "system_memory", self.memory)
        monkeypatch.setattr(live, "_IDLE_S", 0.0)

    def memory(self) -> DeviceMemory:
        models = [entry for entry in self.host.models.index() if str(entry.state) == "ready"] if self.host else []
        return DeviceMemory(100 * MIB, max(0, 100 - self.others - 30 * len(models)) * MIB)


WIDE = mlp((2, 1024, 2048, 2))  # 8 MB of weights


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.slow
def test_the_model_that_was_idle_longest_makes_room(machine, tmp_path):
    async def test() -> None:
        async with living_host(tmp_path) as host:
            machine.host = host
            await host.push("acme.a", 1)  # needs next to nothing
            await host.push("acme.b", 1)
            await host.ask("acme.a")
            await host.push("acme.new", 1, WIDE)
            assert host.ready("acme.a") == host.ready("acme.new") == {1}
            assert host.states("acme.b") == {1: "unloaded"}
            for version in (None, 1):
                with pytest.raises(Evicted, match="version 1 made room") as refusal:
                    await host.ask("acme.b", version)
            assert refusal.value.retry_after == LOOK_S
            assert await asyncio.to_thread(logged, host, b"made room for another model")
            ((_, figures),) = host.host._loader.ledger.statistics()
            assert (figures.evicted_total, figures.models) == (1, 2)

    asyncio.run(test())


@pytest.mark.slow
def test_what_cannot_fit_leaves_everybody_who_is_busy(machine, tmp_path):
    async def test() -> None:
        async with living_host(tmp_path) as host:
            machine.host = host
            await host.push("acme.a", 1)
            machine.others = 65
            with host.models.get("acme.a", None).hold(), pytest.raises(MemoryExhausted, match="5 of 100 MiB are free"):
                await host.push("acme.new", 1, WIDE)
            assert await host.ask("acme.a") == 1
            assert host.states("acme.new") == {1: "failed"}

    asyncio.run(test())


@pytest.mark.slow
def test_who_made_room_is_back_after_a_restart(machine, tmp_path):
    async def test() -> None:
        async with living_host(tmp_path) as host:
            machine.host = host
            await host.push("acme.a", 1)
            machine.others = 60
            await host.push("acme.new", 1, WIDE)
            assert host.states("acme.a") == {1: "unloaded"}
        machine.host, machine.others = None, 0
        async with living_host(tmp_path) as host:
            assert host.ready("acme.a") == host.ready("acme.new") == {1}

    asyncio.run(test())


@pytest.mark.slow
def test_who_made_room_comes_back_when_there_is_some(machine, tmp_path):
    async def test() -> None:
        async with living_host(tmp_path) as host:
            machine.host = host
            await host.push("acme.a", 1)
            machine.others = 60
            await host.push("acme.new", 1, WIDE)
            await host.models.bring_back()
            assert host.states("acme.a") == {1: "unloaded"}
            machine.others = 10
            await host.models.bring_back()
            assert await host.ask("acme.a") == 1
            assert host.ready("acme.new") == {1}

    asyncio.run(test())


@pytest.mark.slow
def test_a_sequence_is_told_that_its_state_is_gone(machine, tmp_path):
    async def test() -> None:
        async with living_host(tmp_path) as host:
            machine.host = host
            await host.push("acme.sum", 1, summing(2), state=[{"input": "sum", "output": "next"}])
            assert await step(host, 3, start=True) == 3
            assert await step(host, 4) == 7
            machine.others = 60
            await host.push("acme.new", 1, WIDE)
            with pytest.raises(Evicted) as refusal:
                await step(host, 5)
            assert "without the states of its sequences" in refusal.value.hint
            machine.others = 10
            await host.models.bring_back()
            with pytest.raises(SequenceLost, match="'s' is gone"):
                await step(host, 5)
            assert await step(host, 5, start=True) == 5

    asyncio.run(test())


async def step(host: LivingHost, value: float, *, start: bool = False) -> float:
    """A step of one sequence of a model that adds up."""
    asked = replace(request(1), inputs=(tensor(np.full((1, 2), value)),), step=Step("s", start=start))
    response = await host.models.get("acme.sum", None).infer(asked)
    return float(response.outputs[0].data[0, 0])


@pytest.mark.slow
def test_who_made_room_and_is_not_to_serve_any_more_stays_away(machine, tmp_path):
    async def test() -> None:
        async with living_host(tmp_path) as host:
            machine.host = host
            accepted = {name: await host.push(name, 1) for name in ("acme.a", "acme.b", "acme.c")}
            machine.others = 0
            await crowd(machine, host)
            await host.models.unload("acme.a", None, wait=True)
            with pytest.raises(ModelUnknown):
                await host.models.unload("acme.a", None, wait=True)
            await host.revoke(accepted["acme.b"])
            await host.push("acme.c", 2)
            await host.models.bring_back()
            for name, error in (("acme.a", ModelUnknown), ("acme.b", Revoked)):
                with pytest.raises(error):
                    await host.ask(name)
            assert host.states("acme.c") == {1: "unloaded", 2: "ready"}

    asyncio.run(test())


async def crowd(machine: Machine, host: LivingHost) -> None:
    """Let everybody make room, then leave the machine empty."""
    machine.others = 100
    while await host.host._loader.ledger.give_way({(e.name, e.version) for e in host.models.index()}):
        pass
    machine.others = 0


def logged(host: LivingHost, reason: bytes) -> bool:
    journal = host.host._journal
    return any(reason in entry for entry in journal.entries(0, journal.state.head.size))
