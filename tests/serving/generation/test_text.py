"""Whose prompt is made into tokens next, where one process does it for all."""

import asyncio

import pytest

from sandseal_host.errors import QueueFull
from sandseal_host.serving.generation.text import Text
from sandseal_host.serving.request import BATCH, REALTIME, STANDARD
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from support.serving import request


class OneAtATime:
    """A tokeniser whose calls wait until a test serves them, the most urgent first; tokens are characters."""

    tokens, special = (b"",) * 256, ()

    def __init__(self) -> None:
        self.waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self.served: list[str] = []
        self.options: dict[str, object] = {}

    async def encode(self, text, urgency):
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append((urgency, len(self.served) + len(self.waiting), turn))
        await turn
        self.served.append(text)
        return [ord(letter) for letter in text]

    async def chat(self, messages, urgency, **options):
        self.options = options
        return await self.encode(messages[0]["content"], urgency)

    def serve(self) -> None:
        first = min(self.waiting, key=lambda call: call[:2])
        self.waiting.remove(first)
        first[2].set_result(None)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(test) -> None:
    asyncio.run(asyncio.wait_for(test, 20))


def asked(number, tenant="t", service_class=STANDARD, arrival=None):
    now = asyncio.get_running_loop().time()
    return request(number, tenant=tenant, service_class=service_class, arrival=arrival or now)


def test_one_tenants_prompts_leave_others_their_turns():
    async def test():
        tokeniser = OneAtATime()
        text = Text(tokeniser, SchedulerSettings())
        flood = [asyncio.create_task(text.encode("f", asked(n, "flood"))) for n in range(50)]
        await settled()
        for _ in range(5):  # measures how fast they are served
            await asyncio.sleep(0.002)
            tokeniser.serve()
        await settled()
        now = asyncio.get_running_loop().time()
        more = [asyncio.create_task(text.encode("f", asked(100 + n, "flood"))) for n in range(50)]
        await settled()
        others = [asyncio.create_task(text.encode("o", asked(200 + n, "other", arrival=now))) for n in range(3)]
        await settled()
        while not all(task.done() for task in others):
            tokeniser.serve()
            await settled()
        assert tokeniser.served.count("f") <= 50  # those of the first flood at most
        for task in (*flood, *more):
            task.cancel()

    run(test())


def test_the_more_urgent_class_is_first():
    async def test():
        tokeniser = OneAtATime()
        text = Text(tokeniser, SchedulerSettings())
        classes = {"b": BATCH, "s": STANDARD, "r": REALTIME}
        tasks = [
            asyncio.create_task(text.encode(name, asked(n, name, service_class)))
            for n, (name, service_class) in enumerate(classes.items())
        ]
        await settled()
        for _ in tasks:
            tokeniser.serve()
            await settled()
        assert tokeniser.served == ["r", "s", "b"]

    run(test())


def test_no_more_wait_than_may():
    async def test():
        text = Text(OneAtATime(), SchedulerSettings(max_requests=2))
        tasks = [asyncio.create_task(text.encode("a", asked(n, "flood"))) for n in range(2)]
        await settled()
        with pytest.raises(QueueFull):
            await text.encode("a", asked(3, "flood"))
        for task in tasks:
            task.cancel()

    run(test())


def test_what_is_put_before_and_behind():
    async def test():
        tokeniser = OneAtATime()
        text = Text(tokeniser, SchedulerSettings(), add_bos=7)
        plain = asyncio.create_task(text.encode("a", asked(1)))
        chat = asyncio.create_task(text.chat([{"content": "b"}], asked(2), opening="c", tools=[1]))
        while not (plain.done() and chat.done()):
            await settled()
            if tokeniser.waiting:
                tokeniser.serve()
        assert plain.result() == [7, ord("a")]
        assert chat.result() == [ord("b"), ord("c")]
        assert tokeniser.options == {"tools": [1]}

    run(test())
