"""The control plane's recording of one model's arrivals: times, classes and shapes, for `sandseal tune`."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request
from pydantic import BaseModel, Field

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.errors import RecordingsFull
from sandseal_host.api.exchange import Exchange
from sandseal_host.api.grant import Grant
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import Models
from sandseal_host.errors import ClientGone
from sandseal_host.registry.tokens import Scope

MAX_SECONDS = 3600
MAX_RECORDINGS = 4
"""At once, of all models: each may hold 200,000 arrivals, tens of MiB, and costs each request of its model a little."""


class Profile(BaseModel):
    """A recording: each arrival is [microseconds since it began, class, which of `shapes`]."""

    form: Literal["sandseal.profile/1"] = Field(alias="schema")
    model: str
    version: int
    seconds: float
    shapes: list[list[list[int]]]
    arrivals: list[tuple[int, str, int]]


def add_recording_routes(control: FastAPI, models: Models, door: Doorkeeper) -> None:
    """Add POST /v1/models/{model}/recordings, for operators."""
    places = _Places()

    @control.post("/v1/models/{model}/recordings", summary="Record when requests arrive, and in which shapes")
    async def record(
        model: str,
        request: Request,
        grant: Annotated[Grant, permit(door, Scope.OPERATE)],
        seconds: Annotated[float, Query(gt=0, le=MAX_SECONDS)],
        version: Annotated[int | None, Query(ge=1)] = None,
    ) -> Profile:
        grant.need_model(model)
        live = models.get(model, version)
        with places.take(seconds), live.recorded() as recording:
            await _stay(request, seconds)
        kinds: dict[tuple[tuple[int, ...], ...], int] = {}
        arrivals = [
            (round(each.at_s * 1e6), each.service_class, kinds.setdefault(each.shapes, len(kinds)))
            for each in recording.arrivals
        ]
        return Profile(
            schema="sandseal.profile/1",
            model=model,
            version=live.version,
            seconds=seconds,
            shapes=[[list(shape) for shape in kind] for kind in kinds],
            arrivals=arrivals,
        )


class _Places:
    """How many recordings are under way; lives on the event loop."""

    def __init__(self) -> None:
        self._ends: list[float] = []  # when each of them is over

    @contextmanager
    def take(self, seconds: float) -> Iterator[None]:
        """Have a place for as long as the block lasts.

        Raises:
            RecordingsFull: there is none.
        """
        now = asyncio.get_running_loop().time()
        if len(self._ends) >= MAX_RECORDINGS:
            raise RecordingsFull(
                f"{len(self._ends)} recordings are under way", retry_after=max(1.0, min(self._ends) - now)
            )
        self._ends.append(end := now + seconds)
        try:
            yield
        finally:
            self._ends.remove(end)


async def _stay(request: Request, seconds: float) -> None:
    """Let time go by while the client is there.

    Raises:
        ClientGone: it left before the end, so that nobody would get the recording.
    """
    try:
        async with asyncio.timeout(seconds):
            await Exchange(request.scope, request.receive).wait_disconnected()
    except TimeoutError:
        return
    raise ClientGone("the client left before its recording was over")
