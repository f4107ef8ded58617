"""The request log: a line for each inference, where the operator wants it."""

from sandseal_host.observe.finished import Finished
from sandseal_host.observe.logs import get_logger

_log = get_logger("sandseal.requests")


class RequestLog:
    """Writes down finished inferences.

    Args:
        failures_only: leave out what was answered well.
    """

    def __init__(self, *, failures_only: bool) -> None:
        self._failures_only = failures_only

    def __call__(self, finished: Finished) -> None:
        """Write an inference down."""
        if self._failures_only and finished.status < 400:
            return
        timings = {f"{stage}_ms": round(1e3 * seconds, 3) for stage, seconds in finished.timings.items()}
        _log.info(
            "request",
            request_id=finished.request_id,
            trace_id=trace_id(finished.traceparent),
            tenant=finished.tenant,
            model=finished.model,
            version=finished.version,
            bundle=finished.bundle,
            service_class=finished.service_class,
            status=finished.status,
            verdict=finished.verdict,
            total_ms=round(1e3 * finished.seconds, 3),
            **timings,
        )


def trace_id(traceparent: str) -> str:
    """The trace that a `traceparent` names (`00-<32 hex digits>-<16>-<2>`); empty where it is none."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) >= 4 and len(parts[1]) == 32 and parts[1].isalnum() else ""
