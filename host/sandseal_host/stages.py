"""The stages of a load, each within its time, on threads that may be given up."""

import asyncio
import contextlib
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from threading import Thread
from threading import enumerate as enumerate_threads
from typing import Any, TypeVar

from sandseal_host.errors import LoadTimeout
from sandseal_host.settings import Settings

_Result = TypeVar("_Result")

_NAME = "load"


class LoadStage(StrEnum):
    """What a load is doing."""

    VERIFYING = "verifying"
    LOADING = "loading"
    WARMING = "warming"


def apart(work: Callable[[], _Result]) -> "asyncio.Future[_Result]":
    """Run blocking work on a thread of its own.

    A pool would have to wait for what hangs, at the latest as the process ends, and has a few threads for all.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    def settle(put: Callable[..., None], outcome: object) -> None:
        if not future.done():
            put(outcome)

    def run() -> None:
        try:
            outcome = partial(settle, future.set_result, work())
        except BaseException as error:
            outcome = partial(settle, future.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            loop.call_soon_threadsafe(outcome)

    Thread(target=run, name=_NAME, daemon=True).start()
    return future


def hanging() -> bool:
    """Whether work that was begun `apart` goes on."""
    return any(thread.name == _NAME for thread in enumerate_threads())


class LoadStages:
    """The clock of one load; lives on the event loop.

    Args:
        settings: how long each stage may take.
        changed: called with each stage that begins.
    """

    def __init__(self, settings: Settings, changed: Callable[[LoadStage], None] = lambda _: None) -> None:
        self._limits = {
            LoadStage.VERIFYING: settings.verify_time_s,
            LoadStage.LOADING: settings.load_time_s,
            LoadStage.WARMING: settings.warm_time_s,
        }
        self._loop, self._changed = asyncio.get_running_loop(), changed
        self._stage: LoadStage = LoadStage.VERIFYING
        self._end: Callable[[], None] = lambda: None
        self._limit: asyncio.Timeout | None = None
        self.overdue: asyncio.Future[Any] | None = None
        """What was given up."""

    def enter(self, stage: LoadStage, end: Callable[[], None] = lambda: None) -> None:
        """Go on to a stage, whose time begins now; from any thread.

        Args:
            end: called when its time is over; breaks off what can be broken off.
        """
        with contextlib.suppress(RuntimeError):  # a load that was given up, and a loop that is closed
            self._loop.call_soon_threadsafe(self._enter, stage, end)

    async def within(
        self, work: "asyncio.Future[_Result]", late: "Callable[[asyncio.Future[_Result]], None]"
    ) -> _Result:
        """Await work that goes through stages.

        Args:
            late: called, on a thread, with the work that was given up when it ends after all, to free what it holds.

        Raises:
            LoadTimeout: a stage took too long; the work may go on.
        """
        try:
            async with asyncio.timeout(self._limits[self._stage]) as self._limit:
                return await asyncio.shield(work)
        except BaseException as error:
            if work.done() and not work.cancelled() and work.exception() is error:
                raise
            self._give_up(work, late)
            if isinstance(error, TimeoutError):
                raise self._timeout() from None
            raise
        finally:
            self._limit = None

    def _enter(self, stage: LoadStage, end: Callable[[], None]) -> None:
        self._stage, self._end = stage, end
        if self.overdue is not None:
            end()
            return
        self._changed(stage)
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(self._loop.time() + self._limits[stage])

    def _give_up(self, work: "asyncio.Future[_Result]", late: "Callable[[asyncio.Future[_Result]], None]") -> None:
        self._end()
        self.overdue = work
        work.add_done_callback(lambda ended: apart(partial(late, ended)))

    def _timeout(self) -> LoadTimeout:
        limit = self._limits[self._stage]
        name = {LoadStage.VERIFYING: "verify", LoadStage.LOADING: "load", LoadStage.WARMING: "warm"}[self._stage]
        return LoadTimeout(
            f"{self._stage} took longer than {limit:g} s",
            hint=f"look at disk and device, or raise SANDSEAL_{name.upper()}_TIME_S",
            stage=str(self._stage),
        )
