"""Metrics in Prometheus' text format: requests counted on the hot path, everything else read when asked for.

Rooms know nothing of Prometheus; they offer `statistics()`, and every number in it becomes a gauge (or, where a field's
name ends in `_total`, a counter), also in records and mappings within. A field `x_histogram` that maps upper bounds to
counts is a histogram, and `x_sum` beside it the sum of what it counts.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import accumulate
from math import inf
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Statistics = Iterable[tuple[Mapping[str, str], Any]]

_HISTOGRAM = "_histogram"


class ModelMeter:
    """Counts one model version's answers; plain integers, touched by the event loop alone."""

    __slots__ = ("answers", "buckets", "seconds")

    def __init__(self) -> None:
        self.answers: dict[tuple[int, str], int] = {}
        self.buckets = [0] * (len(BUCKETS_S) + 1)
        self.seconds = 0.0

    def count(self, status: int, service_class: str, seconds: float) -> None:
        """Count an answer of this HTTP status and class that took so long."""
        key = (status, service_class)
        self.answers[key] = self.answers.get(key, 0) + 1
        self.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self.seconds += seconds


class RequestMetrics(Collector):
    """The requests of all models."""

    def __init__(self) -> None:
        self._meters: dict[tuple[str, int], ModelMeter] = {}

    def meter(self, model: str, version: int) -> ModelMeter:
        """The meter of a model version; the same one whenever asked."""
        return self._meters.setdefault((model, version), ModelMeter())

    def collect(self) -> Iterator[Metric]:
        """What was counted, for Prometheus."""
        labels = ("model", "version")
        answers = CounterMetricFamily(
            "sandseal_requests", "Inference requests answered.", labels=(*labels, "code", "class")
        )
        latency = HistogramMetricFamily(
            "sandseal_request_seconds", "From the first look at a request to its answer.", labels=labels
        )
        for (model, version), meter in list(self._meters.items()):
            at = (model, str(version))
            for (status, service_class), count in list(meter.answers.items()):
                answers.add_metric((*at, str(status), service_class), count)
            bounds = (*map(str, BUCKETS_S), "+Inf")
            latency.add_metric(at, list(zip(bounds, accumulate(meter.buckets), strict=True)), meter.seconds)
        yield answers
        yield latency


class HostMetrics(Collector):
    """All metrics of a host; `requests` is what the data plane counts with."""

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self._sources: list[tuple[str, Callable[[], Statistics]]] = []
        self._registry = CollectorRegistry()
        for collector in (self.requests, self):
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)

    def add(self, prefix: str, source: Callable[[], Statistics]) -> None:
        """Read more statistics at every scrape.

        Args:
            prefix: what the metrics' names begin with, such as `sandseal_lane`.
            source: gives pairs of labels and a frozen dataclass; one source always gives the same label names.
        """
        self._sources.append((prefix, source))

    def render(self) -> bytes:
        """Prometheus' text format, version 0.0.4."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The statistics of all rooms, for Prometheus."""
        for prefix, source in self._sources:
            yield from _families(prefix, source())


def _families(prefix: str, statistics: Statistics) -> Iterable[Metric]:
    families: dict[str, Any] = {}
    for labels, record in statistics:
        for name, more, values in _numbers(prefix, record):
            at = {**labels, **more}
            if name not in families:
                families[name] = _family(name, tuple(at))
            families[name].add_metric(tuple(at.values()), *values)
    return families.values()


def _numbers(prefix: str, record: Any) -> Iterator[tuple[str, Mapping[str, str], tuple[Any, ...]]]:
    """The numbers in a record: its fields', those of records in it, and those of mappings, told apart by a label."""
    for field in fields(record):
        value, name = getattr(record, field.name), f"{prefix}_{field.name}"
        if isinstance(value, int | float):
            if not hasattr(record, field.name.removesuffix("_sum") + _HISTOGRAM):
                yield name, {}, (value,)
        elif isinstance(value, Mapping) and field.name.endswith(_HISTOGRAM):
            yield name, {}, (_buckets(value), getattr(record, field.name.removesuffix(_HISTOGRAM) + "_sum"))
        elif isinstance(value, Mapping):
            yield from ((name, {field.name: str(key)}, (number,)) for key, number in value.items())
        elif is_dataclass(value):
            yield from _numbers(name, value)


def _buckets(counts: Mapping[float, int]) -> list[tuple[str, float]]:
    """Prometheus' buckets, which count what is at most their bound."""
    bounds = ["+Inf" if bound == inf else str(bound) for bound in counts]
    buckets: list[tuple[str, float]] = list(zip(bounds, accumulate(counts.values()), strict=True))
    return buckets if "+Inf" in bounds else [*buckets, ("+Inf", sum(counts.values()))]


def _family(name: str, labels: tuple[str, ...]) -> Any:
    kind: Any = GaugeMetricFamily
    if name.endswith(_HISTOGRAM):
        name, kind = name.removesuffix(_HISTOGRAM), HistogramMetricFamily
    elif name.endswith("_total"):
        kind = CounterMetricFamily
    return kind(name, name.replace("_", " ").capitalize() + ".", labels=labels)
