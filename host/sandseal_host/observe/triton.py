"""The same figures under Triton's names, labels and units, so that boards and alerts made for it go on working.

Names and meanings are those of Triton's user guide, "Metrics". Its counters end in no `_total`, which Prometheus' own
client would add; so the text is written here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

REASONS = {499: "CANCELED", 503: "REJECTED", 504: "REJECTED"}
"""Why a request failed, by HTTP status; every other one from 500 on is the backend's (BACKEND)."""


@dataclass(frozen=True, slots=True)
class TritonModel:
    """What one version of a model did.

    Args:
        model, version: which.
        statuses: how many answers had each HTTP status.
        success: requests that were answered.
        rows: those that ran.
        executions: batches.
        queue_s, pre_s, run_s, post_s: seconds that the answered requests spent on each part of their way.
        pending: requests that wait for their batch.
        hits, misses: requests whose answer was kept from before, and those whose answer was looked for in vain.
        hits_s, misses_s: seconds that looking took.
    """

    model: str
    version: int
    statuses: Mapping[int, int]
    success: int
    rows: int
    executions: int
    queue_s: float
    pre_s: float
    run_s: float
    post_s: float
    pending: int
    hits: int = 0
    misses: int = 0
    hits_s: float = 0.0
    misses_s: float = 0.0

    @property
    def failures(self) -> Mapping[str, int]:
        """Failed requests by reason; what is refused as wrong is not counted, as by Triton."""
        counts = dict.fromkeys(("REJECTED", "CANCELED", "BACKEND", "OTHER"), 0)
        for status, count in self.statuses.items():
            if status >= 500 or status in REASONS:
                counts[REASONS.get(status, "BACKEND")] += count
        return counts


_Figure = Callable[[TritonModel], float]

_COUNTERS: tuple[tuple[str, str, _Figure], ...] = (
    ("nv_inference_request_success", "Successful requests, all batch sizes", lambda m: m.success),
    ("nv_inference_count", "Inferences performed, a batch of n as n", lambda m: m.rows),
    ("nv_inference_exec_count", "Model executions performed", lambda m: m.executions),
    (
        "nv_inference_request_duration_us",
        "Cumulative request time in microseconds",
        lambda m: 1e6 * (m.hits_s + m.misses_s + m.queue_s + m.pre_s + m.run_s + m.post_s),
    ),
    ("nv_inference_queue_duration_us", "Cumulative queuing time in microseconds", lambda m: 1e6 * m.queue_s),
    ("nv_inference_compute_input_duration_us", "Cumulative pre stage time in microseconds", lambda m: 1e6 * m.pre_s),
    ("nv_inference_compute_infer_duration_us", "Cumulative run time in microseconds", lambda m: 1e6 * m.run_s),
    ("nv_inference_compute_output_duration_us", "Cumulative post stage time in microseconds", lambda m: 1e6 * m.post_s),
    ("nv_cache_num_hits_per_model", "Answers found in the cache", lambda m: m.hits),
    ("nv_cache_num_misses_per_model", "Answers not found in the cache", lambda m: m.misses),
    ("nv_cache_hit_duration_per_model", "Cumulative time of finding in microseconds", lambda m: 1e6 * m.hits_s),
    ("nv_cache_miss_duration_per_model", "Cumulative time of not finding in microseconds", lambda m: 1e6 * m.misses_s),
)


def triton_text(models: Iterable[TritonModel], memory: Mapping[str, tuple[int, int]]) -> str:
    """Prometheus' text format of what Triton would say.

    Args:
        models: those that serve.
        memory: bytes that there are and that are used, by device (`cpu`, or what stands in the label `gpu_uuid`).
    """
    found = list(models)
    lines: list[str] = []
    for name, text, figure in _COUNTERS:
        lines += _family(name, "counter", text, ((_of(m), figure(m)) for m in found))
    failures = ((_of(m, f'reason="{why}",'), count) for m in found for why, count in m.failures.items())
    lines += _family("nv_inference_request_failure", "counter", "Failed requests, all batch sizes", failures)
    pending = ((_of(m), m.pending) for m in found)
    lines += _family("nv_inference_pending_request_count", "gauge", "Requests awaiting execution", pending)
    for kind in sorted({_kind(device) for device in memory}):
        for i, what in enumerate(("total", "used")):
            held = ((_gpu(name), sizes[i]) for name, sizes in memory.items() if _kind(name) == kind)
            lines += _family(f"nv_{kind}_memory_{what}_bytes", "gauge", f"Memory in bytes, {what}", held)
    return "\n".join([*lines, ""])


def _family(name: str, kind: str, text: str, samples: Iterable[tuple[str, float]]) -> list[str]:
    values = [f"{name}{labels} {value:.0f}" for labels, value in samples]
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *values]


def _of(model: TritonModel, more: str = "") -> str:
    return f'{{model="{model.model}",{more}version="{model.version}"}}'  # a model's name needs no escapes


def _kind(device: str) -> str:
    return "cpu" if device == "cpu" else "gpu"


def _gpu(device: str) -> str:
    return "" if device == "cpu" else f'{{gpu_uuid="{device}"}}'
