"""What a model answered, as Triton's clients read it (its statistics extension)."""

from typing import Any

from sandseal_host.api.ports import LiveModel


def model_statistics(model: LiveModel) -> dict[str, Any]:
    """A version's statistics since it was loaded.

    Its plugins are what computes inputs and outputs. Of failures the number alone is known.

    Args:
        model: ready.
    """
    served = model.served()
    count = served.requests
    computed = count - served.hits
    total_s = served.hits_s + served.misses_s + served.pre_s + served.queue_s + served.run_s + served.post_s
    return {
        "name": model.manifest.name,
        "version": str(model.version),
        "last_inference": round(served.last * 1000),
        "inference_count": served.rows,
        "execution_count": sum(ran for ran, _ in served.batches.values()),
        "inference_stats": {
            "success": _duration(count, total_s),
            "fail": _duration(served.failed, 0),
            "queue": _duration(computed, served.queue_s),
            "compute_input": _duration(computed, served.pre_s),
            "compute_infer": _duration(computed, served.run_s),
            "compute_output": _duration(computed, served.post_s),
            "cache_hit": _duration(served.hits, served.hits_s),
            "cache_miss": _duration(served.misses, served.misses_s),
        },
        "response_stats": {},
        "batch_stats": [
            {
                "batch_size": rows,
                "compute_input": _duration(ran, 0),
                "compute_infer": _duration(ran, seconds),
                "compute_output": _duration(ran, 0),
            }
            for rows, (ran, seconds) in sorted(served.batches.items())
        ],
        "memory_usage": [_memory(device, size) for device, size in served.resident.items()],
    }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": round(seconds * 1e9)}


def _memory(device: str, size: int) -> dict[str, Any]:
    kind, _, index = device.partition(":")
    return {"type": "GPU" if kind == "cuda" else "CPU", "id": int(index or 0), "byte_size": size}
