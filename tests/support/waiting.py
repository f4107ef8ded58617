"""Waiting for what other threads and processes do, for as long as a busy machine may take."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 60.0  # only what hangs takes longer

_Found = TypeVar("_Found")


def wait_until(condition: Callable[[], _Found]) -> _Found:
    """What the condition gives, once it holds."""
    until = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.005)
    return found


async def until(condition: Callable[[], _Found]) -> _Found:
    """What the condition gives, once it holds, while others have their turns."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := condition()):  # noqa: ASYNC110 (nobody tells of this)
            await asyncio.sleep(0.001)
    return found
