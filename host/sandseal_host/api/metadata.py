"""What the protocol's metadata endpoints say about the host and its models."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sandseal_host.api.answer import Answer, json_answer
from sandseal_host.api.ports import HostState, LiveModel, ModelEntry
from sandseal_host.errors import Busy
from sandseal_signing.tensor import TensorSpec

EXTENSIONS = (
    "binary_tensor_data",
    "classification",
    "logging",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "sequence",
    "statistics",
    "trace",
)
PLATFORM, ENSEMBLE = "onnxruntime_onnx", "ensemble"

_TRITON_STATES = {
    "ready": "READY",
    "verifying": "LOADING",
    "loading": "LOADING",
    "warming": "LOADING",
    "draining": "UNLOADING",
}


def host_version() -> str:
    """The installed version of the distribution."""
    try:
        return version("sandseal")
    except PackageNotFoundError:
        return "0"


SERVER = {"name": "sandseal", "version": host_version(), "extensions": list(EXTENSIONS)}


def health(state: HostState, asked: str) -> Answer:
    """The answer to `live` or `ready`; its body has what Triton's and KServe's clients look for.

    A host that is stopping stays live: it is finishing what it has begun.
    """
    document = {"live": True, "ready": state is HostState.READY}
    if asked == "live" or state is HostState.READY:
        return json_answer(document)
    if state is HostState.STOPPING:
        return json_answer(document | {"error": "this host is stopping"}, 503, ((b"retry-after", b"1"),))
    if state is HostState.NO_WORKERS:
        why = "no process that runs plugins is alive; the host's log says why"
        return json_answer(document | {"error": why}, 503, ((b"retry-after", b"1"),))
    return json_answer(document | {"error": "this host is starting"}, 400)


def model_ready(model: LiveModel) -> Answer:
    """The answer for a model that is ready."""
    return json_answer({"name": model.manifest.name, "ready": True})


def model_not_ready(error: Busy, name: str) -> Answer:
    """The answer for one that is not: 400, where everything else about it would be 503."""
    return json_answer({"name": name, "ready": False, "error": error.message, "code": error.code}, 400)


def model_metadata(model: LiveModel, entries: Iterable[ModelEntry]) -> dict[str, Any]:
    """The public signature of a model: what clients send and get, whatever its plugins make of it."""
    manifest = model.manifest
    precision = {"precision": model.precision} if model.precision else {}
    versions = sorted(e.version for e in entries if e.name == manifest.name and e.state == "ready")
    return {
        "name": manifest.name,
        "versions": [str(v) for v in versions or [model.version]],
        "platform": PLATFORM if manifest.pipeline is None else ENSEMBLE,
        "inputs": [_tensor(spec) for spec in manifest.inputs],
        "outputs": [_tensor(spec) for spec in manifest.outputs],
        "properties": {"bundle": model.bundle_id, "release": manifest.release, **precision, **manifest.metadata},
    }


def index_entry(entry: ModelEntry) -> dict[str, str]:
    """A line of the repository index, in Triton's words; states of ours that it lacks are told by the reason."""
    state = _TRITON_STATES.get(entry.state, "UNAVAILABLE")
    reason = {} if state == "READY" else {"reason": entry.reason or entry.state}
    return {"name": entry.name, "version": str(entry.version), "state": state, **reason}


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    shape = [axis if isinstance(axis, int) else -1 for axis in spec.shape]
    return {"name": spec.name, "datatype": str(spec.dtype), "shape": shape}
