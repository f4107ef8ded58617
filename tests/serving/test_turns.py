"""Tenants and classes in front of plugins."""

import asyncio

import numpy as np
import pytest

from sandseal_host.errors import QueueFull
from sandseal_host.serving.request import BATCH, REALTIME
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.turns import Turns
from support.clock import Clock
from support.serving import Stage, ready_model, request


class Queued(Stage):
    """A stage that runs one call at a time, the most urgent first."""

    def __init__(self) -> None:
        super().__init__(lambda raw: raw.reshape(-1, 2))
        self.waiting: list[tuple[float, asyncio.Future[None]]] = []
        self.ran: list[int] = []

    async def apply(self, inputs, parameters, urgency, deadline):
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append((urgency, turn))
        await turn
        self.ran.append(int(inputs[0].data[0]))
        return await super().apply(inputs, parameters, urgency, deadline)

    def serve(self) -> None:
        first = min(self.waiting, key=lambda call: call[0])
        self.waiting.remove(first)
        first[1].set_result(None)


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def asking(model, number, tenant, arrival):
    asked = request(number, np.full(2, number), tenant=tenant, arrival=arrival)
    return asyncio.create_task(model.infer(asked))


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_flood_before_a_plugin_leaves_its_neighbours_their_turns():
    async def test():
        stage, clock = Queued(), Clock()
        model = ready_model(pre=stage)
        model._turns = Turns(SchedulerSettings(), clock)

        async def serve():
            clock.now += 0.002
            stage.serve()
            await settled()

        flood = [asking(model, n, "flood", clock.now) for n in range(100)]
        await settled()
        for _ in range(10):  # measures how fast they are served
            await serve()
        more = [asking(model, 100 + n, "flood", clock.now) for n in range(100)]
        await settled()
        neighbour = asking(model, 900, "neighbour", clock.now)
        await settled()
        while 900 not in stage.ran:
            await serve()
        assert len(stage.ran) < 120  # the first hundred came before it
        while stage.waiting:
            await serve()
        await asyncio.gather(*flood, *more, neighbour)

    run(test())


def test_a_full_stage_takes_those_with_less_than_their_share():
    turns = Turns(SchedulerSettings(max_requests=4), clock=lambda: 0.0)
    held = [turns.take(request(n, tenant="flood", service_class=BATCH)) for n in range(4)]
    for one in held:
        one.__enter__()
    with (
        pytest.raises(QueueFull, match="4 batch requests"),
        turns.take(request(5, tenant="flood", service_class=BATCH)),
    ):
        pass
    with turns.take(request(6, tenant="neighbour", service_class=BATCH)):
        pass
    with turns.take(request(7, tenant="flood", service_class=REALTIME)):  # which has places of its own
        pass
    with turns.take(request(8, tenant="flood", service_class=BATCH), admitted=True):
        pass
    for one in held:
        one.__exit__(None, None, None)
    with turns.take(request(9, tenant="flood", service_class=BATCH)):
        pass
