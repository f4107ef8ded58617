"""The control plane's recording of one model's arrivals: times, classes and shapes, for `sandseal tune`."""

import asyncio
from typing import Annotated, Literal

from fastapi import FastAPI, Query
from pydantic import BaseModel, Field

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.grant import Grant
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import Models
from sandseal_host.registry.tokens import Scope

MAX_SECONDS = 3600


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

    @control.post("/v1/models/{model}/recordings", summary="Record when requests arrive, and in which shapes")
    async def record(
        model: str,
        grant: Annotated[Grant, permit(door, Scope.OPERATE)],
        seconds: Annotated[float, Query(gt=0, le=MAX_SECONDS)],
        version: Annotated[int | None, Query(ge=1)] = None,
    ) -> Profile:
        grant.need_model(model)
        live = models.get(model, version)
        with live.recorded() as recording:
            await asyncio.sleep(seconds)
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
