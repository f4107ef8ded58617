"""Metrics in Prometheus' text format: what rooms say when they are asked, and the requests that were counted.

Rooms know nothing of Prometheus; they offer `statistics()`, and every number in it becomes a gauge (or, where a field's
name ends in `_total`, a counter), also in records and mappings within. A field `x_histogram` that maps upper bounds to
counts is a histogram, and `x_sum` beside it the sum of what it counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import accumulate
from math import inf
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from sandseal_host.observe.request_metrics import RequestMetrics

Statistics = Iterable[tuple[Mapping[str, str], Any]]

_HISTOGRAM = "_histogram"


class HostMetrics(Collector):
    """All metrics of a host; `requests` is what the data plane counts with."""

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self._sources: list[tuple[str, Callable[[], Statistics]]] = []
        self._texts: list[Callable[[], str]] = []
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

    def append(self, text: Callable[[], str]) -> None:
        """Write more text of the same format behind everything else."""
        self._texts.append(text)

    def render(self) -> bytes:
        """Prometheus' text format, version 0.0.4."""
        return generate_latest(self._registry) + "".join(text() for text in self._texts).encode()

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
            for key, each in value.items():
                numbers = _numbers(name, each) if is_dataclass(each) else [(name, {}, (each,))]
                yield from ((named, {field.name: str(key), **more}, values) for named, more, values in numbers)
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
