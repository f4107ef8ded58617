"""Metrics: counted on the hot path, or read from rooms' statistics."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from sandseal_host.observe.metrics import BUCKETS_S, HostMetrics


def samples(metrics: HostMetrics) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@dataclass(frozen=True)
class Inner:
    waiting: int
    by_reason: Any


@dataclass(frozen=True)
class Outer:
    state: str
    warm: bool
    share: float
    runs_total: int
    inner: Inner | None


@dataclass(frozen=True)
class Sizes:
    rows_histogram: Any
    rows_sum: int


class TestRequests:
    def test_answers_by_code_and_class(self):
        metrics = HostMetrics()
        meter = metrics.requests.meter("m", 3)
        for status, service_class in ((200, "batch"), (200, "batch"), (503, "realtime")):
            meter.count(status, service_class, 0.002)
        assert metrics.requests.meter("m", 3) is meter
        labels = {"model": "m", "version": "3"}
        assert samples(metrics)["sandseal_requests_total"] == [
            ({**labels, "code": "200", "class": "batch"}, 2.0),
            ({**labels, "code": "503", "class": "realtime"}, 1.0),
        ]

    def test_latency_histogram(self):
        metrics = HostMetrics()
        meter = metrics.requests.meter("m", 1)
        for seconds in (0.0005, 0.001, 0.0011, 100.0):
            meter.count(200, "standard", seconds)
        found = samples(metrics)
        buckets = {labels["le"]: value for labels, value in found["sandseal_request_seconds_bucket"]}
        assert buckets["0.001"] == 2.0
        assert buckets["0.0025"] == 3.0
        assert buckets[str(BUCKETS_S[-1])] == 3.0
        assert buckets["+Inf"] == found["sandseal_request_seconds_count"][0][1] == 4.0
        assert abs(found["sandseal_request_seconds_sum"][0][1] - 100.0026) < 1e-9


class TestStatistics:
    def test_every_number_in_a_record(self):
        metrics = HostMetrics()
        record = Outer("ready", True, 0.5, 7, Inner(3, MappingProxyType({"full": 2, "delay": 1})))
        metrics.add("sandseal_thing", lambda: [({"model": "m"}, record)])
        found = samples(metrics)
        at = {"model": "m"}
        assert found["sandseal_thing_warm"] == [(at, 1.0)]
        assert found["sandseal_thing_share"] == [(at, 0.5)]
        assert found["sandseal_thing_runs_total"] == [(at, 7.0)]
        assert found["sandseal_thing_inner_waiting"] == [(at, 3.0)]
        assert found["sandseal_thing_inner_by_reason"] == [
            ({**at, "by_reason": "full"}, 2.0),
            ({**at, "by_reason": "delay"}, 1.0),
        ]
        assert "sandseal_thing_state" not in found

    def test_a_mapping_of_bounds_is_a_histogram(self):
        metrics = HostMetrics()
        metrics.add("x", lambda: [({"model": name}, Sizes({1: 3, 4: 2}, 9)) for name in "ab"])
        found = samples(metrics)
        assert [labels["le"] for labels, _ in found["x_rows_bucket"]] == ["1", "4", "+Inf"] * 2
        assert [value for _, value in found["x_rows_bucket"]] == [3.0, 5.0, 5.0] * 2
        assert found["x_rows_sum"] == [({"model": "a"}, 9.0), ({"model": "b"}, 9.0)]
        assert "x_rows_histogram" not in found

    def test_several_records_share_a_family(self):
        metrics = HostMetrics()
        records = [({"model": name}, Outer("", False, 0.0, i, None)) for i, name in enumerate("ab")]
        metrics.add("sandseal_thing", lambda: records)
        assert samples(metrics)["sandseal_thing_runs_total"] == [({"model": "a"}, 0.0), ({"model": "b"}, 1.0)]

    def test_read_anew_each_time(self):
        metrics = HostMetrics()
        counts = iter(range(100))
        metrics.add("x", lambda: [({}, Inner(next(counts), {}))])
        first, second = (samples(metrics)["x_waiting"][0][1] for _ in range(2))
        assert second > first

    def test_two_hosts_in_one_process_share_nothing(self):
        first, second = HostMetrics(), HostMetrics()
        first.requests.meter("m", 1).count(200, "standard", 0.1)
        assert "sandseal_requests_total" not in samples(second)
