"""A model's configuration as Triton's clients read it (its model_config.proto in JSON)."""

from typing import Any

from sandseal_host.api.metadata import ENSEMBLE, PLATFORM
from sandseal_host.api.ports import LiveModel
from sandseal_host.serving.request import CLASSES
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.versions import VersionPolicy
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.pipeline import PipelineSpec
from sandseal_signing.state import StateSpec
from sandseal_signing.tensor import DataType, TensorSpec


def model_config(model: LiveModel, versions: VersionPolicy, default_class: str) -> dict[str, Any]:
    """The configuration of the public signature; what this host has no counterpart for is left out.

    Args:
        model: ready.
        versions: the policy of its name.
        default_class: of requests that name none.
    """
    manifest, settings = model.manifest, model.settings
    if manifest.pipeline is not None:
        return _ensemble(model, manifest.pipeline, versions)
    batched = all(tensor.batched for tensor in (*manifest.inputs, *manifest.outputs))
    config = {
        "name": manifest.name,
        "platform": PLATFORM,
        "backend": "onnxruntime",
        "version_policy": _policy(versions),
        "max_batch_size": settings.max_rows if batched else 0,
        "input": [_input(spec, batched) for spec in manifest.inputs],
        "output": [_tensor(spec, batched) for spec in manifest.outputs],
        "instance_group": [_group(manifest.name, settings.instances, [*model.served().resident])],
        "default_model_filename": manifest.model.file,
        "parameters": {"bundle": {"string_value": model.bundle_id}},
        "model_transaction_policy": {"decoupled": False},
    }
    if manifest.model.cache:
        config["response_cache"] = {"enable": True}
    if manifest.model.state:
        return config | {
            "sequence_batching": {"state": [_state(manifest.model, each) for each in manifest.model.state]}
        }
    return config | ({"dynamic_batching": _batching(settings, default_class)} if batched else {})


def _ensemble(model: LiveModel, pipeline: PipelineSpec, versions: VersionPolicy) -> dict[str, Any]:
    """A pipeline as Triton's ensemble: of its steps those that are models, between tensors called STEP.TENSOR."""
    steps = [
        {
            "model_name": step.model,
            "model_version": -1,
            "input_map": {spec.name: str(source) for spec, source in zip(step.inputs, step.sources, strict=True)},
            "output_map": {spec.name: f"{step.name}.{spec.name}" for spec in step.outputs},
        }
        for step in pipeline.members
    ]
    return {
        "name": model.manifest.name,
        "platform": ENSEMBLE,
        "version_policy": _policy(versions),
        "max_batch_size": 0,
        "input": [_input(spec, batched=False) for spec in pipeline.inputs],
        "output": [_tensor(spec, batched=False) for spec in pipeline.outputs],
        "ensemble_scheduling": {"step": steps},
        "parameters": {"bundle": {"string_value": model.bundle_id}},
        "model_transaction_policy": {"decoupled": False},
    }


def _policy(versions: VersionPolicy) -> dict[str, Any]:
    if versions.only is not None:
        return {"specific": {"versions": sorted(versions.only)}}
    return {"all": {}} if versions.latest is None else {"latest": {"num_versions": versions.latest}}


def _input(spec: TensorSpec, batched: bool) -> dict[str, Any]:
    return _tensor(spec, batched) | {"format": "FORMAT_NONE", "optional": False}


def _tensor(spec: TensorSpec, batched: bool) -> dict[str, Any]:
    """A tensor without its batch axis, which `max_batch_size` stands for."""
    kind = "STRING" if spec.dtype is DataType.BYTES else spec.dtype
    axes = spec.shape[1:] if batched else spec.shape
    return {
        "name": spec.name,
        "data_type": f"TYPE_{kind}",
        "dims": [axis if isinstance(axis, int) else -1 for axis in axes],
    }


def _state(model: ModelSpec, state: StateSpec) -> dict[str, Any]:
    (spec,) = [spec for spec in model.inputs if spec.name == state.input]
    kind = _tensor(spec, spec.batched)
    return {"input_name": state.input, "output_name": state.output, **{n: kind[n] for n in ("data_type", "dims")}}


def _group(name: str, instances: int, devices: list[str]) -> dict[str, Any]:
    """The model's instances; on GPUs so many that each has its part of them."""
    gpus = [int(device.partition(":")[2] or 0) for device in devices if device.startswith("cuda")]
    kind = "KIND_GPU" if gpus else "KIND_CPU"
    return {"name": name, "kind": kind, "count": instances // max(1, len(gpus)), "gpus": gpus}


def _batching(settings: SchedulerSettings, default_class: str) -> dict[str, Any]:
    levels = {
        str(each.level): {
            "timeout_action": "REJECT",
            "default_timeout_microseconds": round(each.expires_s * 1e6),
            "allow_timeout_override": True,
            "max_queue_size": each.max_requests or settings.max_requests,
        }
        for each in settings.classes.values()
    }
    return {
        "max_queue_delay_microseconds": round(settings.max_delay_s * 1e6),
        "preserve_ordering": False,
        "priority_levels": len(levels),
        "default_priority_level": CLASSES[default_class].level,
        "priority_queue_policy": levels,
    }
