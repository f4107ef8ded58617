"""Metrics: counted on the hot path, or read from rooms' statistics."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from sandseal_host.observe.metrics import HostMetrics
from sandseal_host.observe.request_metrics import BUCKETS_S


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
            meter.count(status, service_class, "t", 0.002)
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
            meter.count(200, "standard", "t", seconds)
        found = samples(metrics)
        buckets = {labels["le"]: value for labels, value in found["sandseal_request_seconds_bucket"]}
        assert buckets["0.001"] == 2.0
        assert buckets["0.0025"] == 3.0
        assert buckets[str(BUCKETS_S[-1])] == 3.0
        assert buckets["+Inf"] == found["sandseal_request_seconds_count"][0][1] == 4.0
        assert abs(found["sandseal_request_seconds_sum"][0][1] - 100.0026) < 1e-9


class TestAttainment:
    def attained(self, meter_of):
        metrics = HostMetrics()
        meter_of(metrics.requests.meter("m", 1, {"standard": 2.0}))
        found = samples(metrics)
        return [found.get(f"sandseal_slo_{name}_total", []) for name in ("requests", "met")]

    def test_what_was_answered_well_within_its_target(self):
        def count(meter):
            for status, seconds in ((200, 1.9), (200, 2.1), (503, 0.1), (500, 0.1), (200, 0.1)):
                meter.count(status, "standard", "t", seconds)

        at = {"class": "standard", "tenant": "t"}
        assert self.attained(count) == [[(at, 5.0)], [(at, 2.0)]]

    def test_a_texts_first_token_is_what_has_a_target(self):
        def count(meter):
            meter.count(200, "standard", "t", 9.0, decode_s=8.5)
            meter.count(200, "standard", "t", 9.0, decode_s=6.5)

        at = {"class": "standard", "tenant": "t"}
        assert self.attained(count) == [[(at, 2.0)], [(at, 1.0)]]

    def test_what_was_wrong_with_a_request_is_not_missed(self):
        def count(meter):
            for status in (400, 404, 429, 499):
                meter.count(status, "standard", "t", 9.0)

        assert self.attained(count) == [[], []]

    def test_each_tenant_and_class_by_itself(self):
        def count(meter):
            meter.count(200, "standard", "a", 3.0)
            meter.count(200, "standard", "b", 1.0)
            meter.count(200, "batch", "b", 30.0)  # no target was given

        total, met = self.attained(count)
        assert [value for _, value in total] == [1.0, 1.0, 1.0]
        assert {(at["class"], at["tenant"]): value for at, value in met} == {
            ("standard", "a"): 0.0,
            ("standard", "b"): 1.0,
            ("batch", "b"): 1.0,
        }

    def test_tenants_beyond_number_are_counted_together(self):
        meter = HostMetrics().requests.meter("m", 1)
        for i in range(5000):
            meter.count(200, "standard", f"t{i}", 0.1)
        assert sum(meter.answers.values()) == 5000
        assert len(meter.answers) < 4100


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

    def test_records_in_a_mapping_are_told_apart_by_its_keys(self):
        metrics = HostMetrics()
        steps = {name: Inner(i, {"full": i}) for i, name in enumerate("ab")}
        metrics.add("x", lambda: [({}, Inner(9, steps))])
        found = samples(metrics)
        assert found["x_by_reason_waiting"] == [({"by_reason": "a"}, 0.0), ({"by_reason": "b"}, 1.0)]
        assert found["x_waiting"] == [({}, 9.0)]

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
        first.requests.meter("m", 1).count(200, "standard", "t", 0.1)
        assert "sandseal_requests_total" not in samples(second)
