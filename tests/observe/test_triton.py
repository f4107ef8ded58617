"""Triton's metrics: names, labels and units as its own server writes them."""

import re
from dataclasses import replace

from sandseal_host.observe.triton import TritonModel, triton_text

MODEL = TritonModel(
    "mlp",
    2,
    statuses={200: 5, 400: 7, 404: 1, 429: 1, 499: 1, 500: 2, 503: 3, 504: 4},
    success=5,
    rows=9,
    executions=3,
    queue_s=0.25,
    pre_s=0.001,
    run_s=1.5,
    post_s=0.002,
    pending=6,
)
AT = {"model": "mlp", "version": "2"}


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """As Prometheus reads them; its Python client would give counters another name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(\w+)(?:\{(.*)\})? (\d+)", line):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
            found.setdefault(match[1], []).append((labels, float(match[3])))
        else:
            assert line.startswith("# ")
    return found


def test_counts_and_microseconds():
    found = samples(triton_text([MODEL], {}))
    expected = {
        "nv_inference_request_success": 5,
        "nv_inference_count": 9,
        "nv_inference_exec_count": 3,
        "nv_inference_request_duration_us": 1_753_000,
        "nv_inference_queue_duration_us": 250_000,
        "nv_inference_compute_input_duration_us": 1_000,
        "nv_inference_compute_infer_duration_us": 1_500_000,
        "nv_inference_compute_output_duration_us": 2_000,
        "nv_inference_pending_request_count": 6,
    }
    assert {name: found[name] for name in expected} == {name: [(AT, value)] for name, value in expected.items()}


def test_failures_by_reason():
    failures = samples(triton_text([MODEL], {}))["nv_inference_request_failure"]
    assert {labels["reason"]: value for labels, value in failures} == {
        "REJECTED": 7,
        "CANCELED": 1,
        "BACKEND": 2,
        "OTHER": 0,
    }
    assert all(labels.keys() == {"model", "reason", "version"} for labels, _ in failures)


def test_counters_have_no_suffix_and_one_head():
    text = triton_text([MODEL, replace(MODEL, model="other")], {})
    lines = text.splitlines()
    assert lines.count("# TYPE nv_inference_count counter") == 1
    assert lines.count("# TYPE nv_inference_pending_request_count gauge") == 1
    assert "_total" not in text
    assert text.endswith("\n")


def test_memory_of_devices():
    found = samples(triton_text([], {"cpu": (100, 40), "cuda:0": (1000, 300), "cuda:1": (1000, 0)}))
    assert found["nv_cpu_memory_total_bytes"] == [({}, 100.0)]
    assert found["nv_cpu_memory_used_bytes"] == [({}, 40.0)]
    assert found["nv_gpu_memory_used_bytes"] == [({"gpu_uuid": "cuda:0"}, 300.0), ({"gpu_uuid": "cuda:1"}, 0.0)]
