"""The control plane's look into one model's queue: what waits, and why the last batches went when they did."""

from typing import Annotated

from fastapi import FastAPI, Query
from pydantic import BaseModel

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.grant import Grant
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import LiveModel, Models
from sandseal_host.registry.tokens import Scope


class CutEntry(BaseModel):
    """One batch: `reason` is full, delay, deadline, bucket or idle; its oldest request had waited `waited_ms`."""

    reason: str
    requests: int
    rows: int
    waited_ms: float


class QueueEntry(BaseModel):
    """A model's queue: its bounds, what waits by class, batches that run, and the last ones cut, oldest first."""

    model: str
    version: int
    max_rows: int
    max_delay_us: int
    instances: int
    waiting: dict[str, int]
    running: int
    batches: list[CutEntry]


def add_queue_routes(control: FastAPI, models: Models, door: Doorkeeper) -> None:
    """Add /v1/models/{model}/queue, for operators and auditors."""

    @control.get("/v1/models/{model}/queue", summary="What waits, and why the last batches were cut")
    async def queue(
        model: str,
        grant: Annotated[Grant, permit(door, Scope.OPERATE, Scope.AUDIT)],
        version: Annotated[int | None, Query(ge=1)] = None,
    ) -> QueueEntry:
        grant.need_model(model)
        return _entry(models.get(model, version))


def _entry(model: LiveModel) -> QueueEntry:
    settings, queue = model.settings, model.explain()
    return QueueEntry(
        model=model.manifest.name,
        version=model.version,
        max_rows=settings.max_rows,
        max_delay_us=round(settings.max_delay_s * 1e6),
        instances=settings.instances,
        waiting=dict(queue.waiting),
        running=queue.running,
        batches=[
            CutEntry(reason=cut.reason, requests=cut.requests, rows=cut.rows, waited_ms=round(cut.waited_s * 1e3, 3))
            for cut in queue.cuts
        ],
    )
