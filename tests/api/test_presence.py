"""Clients that go away while their requests wait."""

import asyncio
from time import monotonic

import pytest

from sandseal_host.api.exchange import Exchange
from sandseal_host.api.presence import Presence
from sandseal_host.errors import ClientGone


async def keep(presence, sent, work, since):
    with presence.wait(sent, since):
        return await work


def exchange(gone: asyncio.Event) -> Exchange:
    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    return Exchange({"type": "http", "headers": []}, receive)


def test_work_for_one_that_has_gone_is_cancelled_and_others_are_not():
    async def main():
        presence, leaves, stays = Presence(), asyncio.Event(), asyncio.Event()
        cancelled, go = asyncio.Event(), asyncio.Event()

        async def waiting():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        async def other():
            await go.wait()
            return "answer"

        lost = asyncio.create_task(keep(presence, exchange(leaves), waiting(), monotonic()))
        kept = asyncio.create_task(keep(presence, exchange(stays), other(), monotonic()))
        await asyncio.sleep(0.02)
        leaves.set()
        with pytest.raises(ClientGone):
            await lost
        assert cancelled.is_set()
        go.set()
        assert await kept == "answer"

    asyncio.run(main())


def test_quick_answers_start_no_watcher():
    async def main():
        presence, asked = Presence(), []

        async def receive():
            asked.append(1)
            await asyncio.Event().wait()

        async def work():
            return 7

        sent = Exchange({"type": "http", "headers": []}, receive)
        for _ in range(100):
            assert await keep(presence, sent, work(), monotonic()) == 7
        await asyncio.sleep(0.02)
        assert asked == []

    asyncio.run(main())


def test_a_cancellation_from_elsewhere_stays_one():
    async def main():
        task = asyncio.create_task(keep(Presence(), exchange(asyncio.Event()), asyncio.Event().wait(), monotonic()))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_errors_of_the_work_pass():
    async def fail():
        await asyncio.sleep(0.01)
        raise ValueError("broken")

    async def main():
        with pytest.raises(ValueError, match="broken"):
            await keep(Presence(), exchange(asyncio.Event()), fail(), monotonic())

    asyncio.run(main())
