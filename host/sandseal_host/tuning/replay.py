"""Recorded arrivals, played to a lane again: at their times, and as fast as it answers."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, cycle

import numpy as np

from sandseal_host.errors import HostError
from sandseal_host.serving.lane import Lane
from sandseal_host.serving.recording import Arrival
from sandseal_host.serving.request import BATCH, CLASSES, Request
from sandseal_host.tensors import blank
from sandseal_host.tuning.candidate import Outcome
from sandseal_signing.tensor import TensorSpec

_BATCHES_AHEAD = 4  # requests that are on their way when the lane is to be kept busy, in batches


class Replay:
    """Arrivals of one model, with inputs of zeros in the recorded shapes.

    Args:
        inputs: the model's, whose shapes the arrivals have.
        arrivals: in the order in which they came.
    """

    def __init__(self, inputs: Sequence[TensorSpec], arrivals: Sequence[Arrival]) -> None:
        self._arrivals = arrivals
        self._batched = all(spec.batched for spec in inputs)
        self._ids = count()
        self._tensors = {
            arrival.shapes: tuple(blank(spec, shape) for spec, shape in zip(inputs, arrival.shapes, strict=True))
            for arrival in arrivals
        }

    @property
    def rows(self) -> int:
        """Of the largest request."""
        return max(tensors[0].rows for tensors in self._tensors.values()) if self._batched else 1

    async def run(self, lane: Lane, seconds: float) -> Outcome:
        """Play the arrivals twice: half of the time as recorded, half of it as fast as the lane answers."""
        started, at = time.monotonic(), self._arrivals[0].at_s
        timely = [arrival for arrival in self._arrivals if arrival.at_s - at <= seconds / 2]
        waited = await asyncio.gather(*(self._answered(lane, each, started + each.at_s - at) for each in timely))
        seconds_waited = [each if each is not None else np.inf for each in waited]
        kept = [w <= CLASSES[each.service_class].target_s for w, each in zip(seconds_waited, timely, strict=True)]
        p50, p99 = np.percentile(seconds_waited, [50, 99], method="higher")
        return Outcome(p50 * 1e3, p99 * 1e3, float(np.mean(kept)), await self._flood(lane, seconds / 2))

    async def _answered(self, lane: Lane, arrival: Arrival, due: float) -> float | None:
        """Seconds from when it was due to its answer; None when it was refused."""
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        try:
            await lane.run(self._request(arrival, due))
        except HostError:
            return None
        return time.monotonic() - due

    async def _flood(self, lane: Lane, seconds: float) -> float:
        """Rows a second while requests always wait, of the most patient class: none is refused."""
        upcoming, ends, rows = cycle(self._arrivals), time.monotonic() + seconds, 0

        async def client() -> None:
            nonlocal rows
            while (now := time.monotonic()) < ends:
                request = self._request(replace(next(upcoming), service_class=BATCH.name), now)
                await lane.run(request)
                rows += request.rows

        began = time.monotonic()
        await asyncio.gather(*(client() for _ in range(_BATCHES_AHEAD * lane.settings.max_rows)))
        return rows / (time.monotonic() - began)

    def _request(self, arrival: Arrival, now: float) -> Request:
        tensors = self._tensors[arrival.shapes]
        rows = tensors[0].rows if self._batched else 1
        return Request(next(self._ids), tensors, rows, CLASSES[arrival.service_class], "default", now, float("inf"))
