"""An inference that is over, as logs, traces and profiles see it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finished:
    """An inference that is over; times are seconds on the monotonic clock.

    Args:
        arrived: when it came.
        asked: when its model was asked; as `arrived` where it never was.
        ended: when its answer was there.
        status: the answer's, as HTTP has it.
        verdict: what became of it: `ok`, or the error's code.
        model, version, bundle: what answered.
        service_class, tenant: whose it was.
        request_id: as the client calls it; empty where it said nothing.
        traceparent: W3C Trace Context's header; empty likewise.
        timings: seconds per stage, in order.
    """

    arrived: float
    asked: float
    ended: float
    status: int
    verdict: str
    model: str
    version: int
    bundle: str
    service_class: str
    tenant: str
    request_id: str
    traceparent: str
    timings: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """From its arrival to its answer."""
        return self.ended - self.arrived


Observer = Callable[[Finished], None]
