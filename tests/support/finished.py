"""Finished inferences, for tests of those who look at them."""

from time import monotonic

from sandseal_host.observe.finished import Finished


def finished(*, seconds: float = 0.25, decoded: float = 0.0, **what) -> Finished:
    """One that ended just now, after so many seconds; its model was asked `decoded` seconds after it came."""
    now = monotonic()
    known = {
        "status": 200,
        "verdict": "ok",
        "model": "acme.double",
        "version": 3,
        "bundle": "ab" * 32,
        "service_class": "standard",
        "tenant": "t",
        "request_id": "",
        "traceparent": "",
        "timings": {"queue": 0.001, "run": 0.002},
    }
    return Finished(arrived=now - seconds, asked=now - seconds + decoded, ended=now, **{**known, **what})
