"""ONNX Runtime's session out of verified bytes, with the options that all sessions here have."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import onnxruntime

from sandseal_host.errors import ModelInvalid
from sandseal_host.optimisation import Optimisation
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.failures import load_failure
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.saved_graphs import SavedGraph
from sandseal_host.runtime.staging import Staging

_SILENT = 4  # log severity: what goes wrong comes as exceptions
_LEVELS = {
    Optimisation.NONE: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    Optimisation.BASIC: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    Optimisation.EXTENDED: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    Optimisation.ALL: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def open_core(
    files: ModelFiles,
    locations: Sequence[str],
    device: Device,
    staging: Staging | None,
    *,
    threads: int = 1,
    optimisation: Optimisation = Optimisation.ALL,
    graphs: bool = False,
    spinning: bool = False,
    saved: SavedGraph | None = None,
) -> onnxruntime.InferenceSession:
    """A session on a device.

    Args:
        files, device, threads, optimisation: see `Session.open`.
        locations: of the graph's external data, as `check_graph` gives them.
        staging: the device's, for this session.
        graphs: whether its runs are recorded.
        spinning: whether its threads wait for each other awake, for as long as a run lasts.
        saved: where its graph is kept once it is optimised.

    Raises:
        ModelInvalid: it does not load.
        DeviceUnavailable: not on this device.
        MemoryExhausted: there is no room.
    """
    graph, spec, folder = files.graph, files.spec, files.folder
    weights = _located(files, locations) if folder is None else {}
    providers = device.providers(staging, graphs=graphs)

    def make(model: bytes, level: Optimisation, written: str | None) -> onnxruntime.InferenceSession:
        options = _options(device, threads, level, spinning=spinning)
        if written is not None:
            options.optimized_model_filepath = written
        if folder is not None:
            beside = folder.joinpath(*spec.file.split("/")[:-1])
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(beside))
        if weights:
            buffers = list(weights.values())
            options.add_external_initializers_from_files_in_memory(
                list(weights), buffers, [len(buffer) for buffer in buffers]
            )
        core = onnxruntime.InferenceSession(model, options, providers=providers, enable_fallback=0)
        core._model_bytes = None  # else the graph's bytes stay as long as the session
        return core

    with staging.gate.shared() if staging is not None else nullcontext():
        try:
            return make(graph, optimisation, None) if saved is None else saved.open(graph, optimisation, make)
        except Exception as error:
            raise load_failure(error, spec.file) from error


def _options(device: Device, threads: int, optimisation: Optimisation, *, spinning: bool) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = _LEVELS[optimisation]
    options.intra_op_num_threads = threads  # never the default: it pins threads, which containers forbid
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # grows with every new shape (onnxruntime#11118)
    options.log_severity_level = _SILENT
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spinning)))
    options.add_session_config_entry("session.force_spinning_stop", "1")  # nobody's core is taken between runs
    device.configure(options)
    return options


def _located(files: ModelFiles, locations: Sequence[str]) -> Mapping[str, bytes]:
    """The weights by the locations under which the graph knows them."""
    file, weights = files.spec.file, files.weights
    folder = file[: file.rfind("/") + 1]
    missing = [location for location in locations if folder + location not in weights]
    if missing:
        raise ModelInvalid(f"{file} needs {missing}, which were not handed over", missing=missing)
    return {location: weights[folder + location] for location in locations}
