import asyncio
import gc

import pytest

from sandseal_host.errors import MemoryExhausted
from sandseal_host.runtime.devices import Devices
from sandseal_host.runtime.ledger import MemoryLedger
from sandseal_host.runtime.memory import DeviceMemory
from sandseal_host.runtime.session import Session
from support import onnx_models
from support.staged_device import StagedCpu, staged

MIB = 1 << 20


class Machine:
    """A GPU of 1000 MiB and the ledger of it."""

    def __init__(self, free: int) -> None:
        self.backend = StagedCpu((DeviceMemory(1000 * MIB, free * MIB),))
        self.device = staged(0, self.backend)
        self.ledger = MemoryLedger(Devices([self.device]), 0.85)
        self.asked: list[set] = []
        self.sessions: dict[tuple[str, int], Session] = {}

    def load(self, name: str, version: int = 1) -> None:
        model = onnx_models.mlp()
        session = self.sessions[name, version] = Session.open(model.files, self.device)
        self.ledger.enter(session, (name, version))

    def evict(self, size: int, *names: str) -> None:
        """Let these give way, in this order, each with so many MiB."""
        order = list(names)

        async def give_way(holders) -> bool:
            self.asked.append(set(holders))
            if not order:
                return False
            self.sessions.pop((order.pop(0), 1)).close()
            (memory,) = self.backend.memories
            self.backend.memories[0] = DeviceMemory(memory.total, memory.free + size * MIB)
            return True

        self.ledger.give_way = give_way

    def need(self, size: int, name: str = "new") -> None:
        async def load() -> None:
            async with self.ledger.room([self.device], name, size * MIB):
                pass

        asyncio.run(load())

    @property
    def statistics(self):
        ((labels, figures),) = self.ledger.statistics()
        assert labels == {"device": "cuda:0"}
        return figures


def test_below_the_watermark_nobody_gives_way():
    machine = Machine(free=500)
    machine.evict(0)
    machine.need(340)
    assert not machine.asked


def test_above_it_idle_models_go_until_it_is_kept():
    machine = Machine(free=200)
    for name in ("a", "b", "c"):
        machine.load(name)
    machine.evict(100, "b", "a", "c")
    machine.need(240)
    assert machine.asked == [{("a", 1), ("b", 1), ("c", 1)}, {("a", 1), ("c", 1)}]
    assert machine.statistics.evicted_total == 2
    assert machine.statistics.models == 1


def test_above_it_a_model_that_fits_is_loaded_where_nobody_is_idle():
    machine = Machine(free=200)
    machine.evict(0)
    machine.need(150)
    assert len(machine.asked) == 1


def test_what_cannot_fit_is_refused_with_the_figures():
    machine = Machine(free=200)
    machine.load("a")
    machine.evict(50, "a")
    with pytest.raises(MemoryExhausted, match="new needs 300 MiB on cuda:0, of which 250 of 1000 MiB are free") as no:
        machine.need(300)
    assert no.value.data == {"device": "cuda:0", "need": 300 * MIB, "free": 250 * MIB, "total": 1000 * MIB}


def test_other_versions_of_the_same_model_stay():
    machine = Machine(free=100)
    machine.load("new", 1)
    machine.load("a")
    machine.evict(0)
    machine.need(50)
    assert machine.asked == [{("a", 1)}]


def test_what_is_small_makes_nobody_give_way_on_a_full_machine():
    machine = Machine(free=20)
    machine.evict(0)
    machine.need(9)
    assert not machine.asked


def test_loads_at_the_same_time_are_promised_different_memory():
    machine = Machine(free=500)

    async def both() -> None:
        async with machine.ledger.room([machine.device], "first", 300 * MIB):
            assert machine.statistics.promised_bytes == 300 * MIB
            with pytest.raises(MemoryExhausted, match="200 of 1000 MiB are free"):
                async with machine.ledger.room([machine.device], "second", 300 * MIB):
                    pass

    asyncio.run(both())
    assert machine.statistics.promised_bytes == 0


def test_a_system_that_does_not_say_refuses_nothing():
    machine = Machine(free=0)
    machine.backend.memories[0] = DeviceMemory(0, 0)
    machine.need(500)


def test_what_sessions_hold_is_counted_until_they_are_closed_or_dropped():
    machine = Machine(free=500)
    machine.load("a", 3)
    machine.load("b")
    held = machine.statistics
    assert held.models == 2
    assert held.held_bytes > 0
    labels = [labels for labels, _ in machine.ledger.session_statistics()]
    assert labels[0] == {"model": "a", "version": "3", "device": "cuda:0"}
    machine.sessions["a", 3].close()
    assert machine.statistics.models == 1
    machine.sessions.clear()
    gc.collect()
    assert machine.statistics.models == 0
