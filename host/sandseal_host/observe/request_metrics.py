"""Requests as they are counted on the hot path: by status, class and tenant, and how long they took."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from math import inf

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_MAX_KEYS = 4096  # of one meter; an identity provider may know any number of tenants
_OTHERS = "(others)"  # whom further ones are counted as


class ModelMeter:
    """Counts one model version's answers; plain integers, touched by the event loop alone.

    Args:
        targets: by class: seconds in which its requests should be answered.
    """

    __slots__ = ("_targets", "answers", "buckets", "late", "seconds")

    def __init__(self, targets: Mapping[str, float]) -> None:
        self._targets = targets
        self.answers: dict[tuple[int, str, str], int] = {}
        """By HTTP status, class and tenant."""
        self.late: Counter[tuple[int, str, str]] = Counter()
        """How many of them came after their class's target."""
        self.buckets = [0] * (len(BUCKETS_S) + 1)
        self.seconds = 0.0

    def count(self, status: int, service_class: str, tenant: str, seconds: float, decode_s: float = 0.0) -> None:
        """Count an answer of this HTTP status, class and tenant that took so long.

        Args:
            decode_s: of the seconds, those after a text's first token, which is what has a target.
        """
        key = (status, service_class, tenant)
        try:
            self.answers[key] += 1
        except KeyError:
            if len(self.answers) >= _MAX_KEYS:
                key = (status, service_class, _OTHERS)
            self.answers[key] = self.answers.get(key, 0) + 1
        if seconds - decode_s > self._targets.get(service_class, inf):
            self.late[key] += 1
        self.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self.seconds += seconds

    def statuses(self) -> Mapping[int, int]:
        """How many answers had each HTTP status."""
        counts: Counter[int] = Counter()
        for (status, _, _), count in list(self.answers.items()):
            counts[status] += count
        return counts


class RequestMetrics(Collector):
    """The requests of all models."""

    def __init__(self) -> None:
        self._meters: dict[tuple[str, int], ModelMeter] = {}

    def meter(self, model: str, version: int, targets: Mapping[str, float] | None = None) -> ModelMeter:
        """The meter of a model version; the same one whenever asked.

        Args:
            targets: by class: seconds in which its requests should be answered; for a new meter.
        """
        return self._meters.setdefault((model, version), ModelMeter(targets or {}))

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
            for (status, service_class), count in _by_class(meter).items():
                answers.add_metric((*at, str(status), service_class), count)
            bounds = (*map(str, BUCKETS_S), "+Inf")
            latency.add_metric(at, list(zip(bounds, accumulate(meter.buckets), strict=True)), meter.seconds)
        yield answers
        yield latency
        yield from self._attainment()

    def _attainment(self) -> Iterator[Metric]:
        """How many of the requests that the host had to answer it answered well, and within their class's target."""
        due: Counter[tuple[str, str]] = Counter()
        met: Counter[tuple[str, str]] = Counter()
        for meter in list(self._meters.values()):
            for key, count in list(meter.answers.items()):
                status, service_class, tenant = key
                if status < 400 or status >= 500:  # what is wrong with a request is not the host's to answer for
                    due[service_class, tenant] += count
                    met[service_class, tenant] += count - meter.late[key] if status < 400 else 0
        for name, counts, text in (
            ("sandseal_slo_requests", due, "Requests that count for their class's target: all but wrong ones."),
            ("sandseal_slo_met", met, "Those of them that were answered within it."),
        ):
            family = CounterMetricFamily(name, text, labels=("class", "tenant"))
            for labels, count in counts.items():
                family.add_metric(labels, count)
            yield family


def _by_class(meter: ModelMeter) -> Mapping[tuple[int, str], int]:
    counts: Counter[tuple[int, str]] = Counter()
    for (status, service_class, _), count in list(meter.answers.items()):
        counts[status, service_class] += count
    return counts
