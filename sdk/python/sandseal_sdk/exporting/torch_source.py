"""A torch module, or a program that torch.export saved, as the source of an export."""

import logging
import pickle
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sandseal_sdk.errors import ExportFailed, InputInvalid, ModelUnreadable
from sandseal_sdk.exporting.samples import Arrays, random_arrays
from sandseal_sdk.toolchains.plugin_module import load_plugin
from sandseal_signing.tensor import TensorSpec

OPSET = 20  # what torch's exporter writes best and every ONNX Runtime that a host may have runs (1.17 and newer)


class TorchSource:
    """A module.

    Args:
        module: in evaluation mode from here on.
        inputs: what its `forward` takes, in order; a named axis is free.
        sizes: what the free axes are traced with.
        outputs: names for what it returns; `output`, or `output_0` and so on, when empty.
        opset: the version of ONNX's operators.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        inputs: Sequence[TensorSpec],
        sizes: Mapping[str, int],
        *,
        outputs: Sequence[str] = (),
        opset: int | None = None,
    ) -> None:
        self._module, self._outputs, self._opset = module.eval(), outputs, opset
        self.inputs, self.sizes = inputs, sizes
        self.description = f"{type(module).__name__} of torch {torch.__version__}"

    def write(self, path: Path) -> Sequence[str]:
        """Trace the module with torch.export and write it as ONNX."""
        example = random_arrays(self.inputs, self.sizes, seed=0)
        names = list(self._outputs) or self._output_names(len(self.run(example)))
        free = {axis: torch.export.Dim(axis, min=1) for axis in self.sizes}
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells of packages that are not there
        try:
            self._export(path, example, names, free)
        except torch.onnx.errors.OnnxExporterError as error:
            raise ExportFailed(f"torch cannot express it in ONNX: {_last_line(error)}") from None
        chosen = "as asked" if self._opset else "which every ONNX Runtime that a host may have runs"
        fixed = ", ".join(f"{axis} (traced with {size})" for axis, size in self.sizes.items()) or "none"
        return [f"Operators of ONNX's opset {self._opset or OPSET}: {chosen}.", f"Free axes: {fixed}."]

    def _export(self, path: Path, example: Arrays, names: list[str], free: Mapping[str, torch.export.Dim]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own deprecated calls, and names that two axes share
            torch.onnx.export(
                self._module,
                tuple(torch.from_numpy(example[spec.name]) for spec in self.inputs),
                path,
                input_names=[spec.name for spec in self.inputs],
                output_names=names,
                dynamic_shapes=tuple(
                    {i: free[axis] for i, axis in enumerate(spec.shape) if isinstance(axis, str)}
                    for spec in self.inputs
                ),
                opset_version=self._opset or OPSET,
                dynamo=True,
                external_data=_is_large(self._module),
                verbose=False,
            )

    def run(self, arrays: Arrays) -> Sequence[NDArray[Any]]:
        """What the module returns."""
        with torch.inference_mode():
            returned = self._module(*(torch.from_numpy(arrays[spec.name]) for spec in self.inputs))
        values = returned.values() if isinstance(returned, dict) else returned
        values = [values] if isinstance(values, torch.Tensor) else list(values)
        return [np.asarray(value) for value in values]

    @staticmethod
    def _output_names(count: int) -> list[str]:
        return ["output"] if count == 1 else [f"output_{i}" for i in range(count)]


def load_module(source: str, weights: Path | None) -> torch.nn.Module:
    """The module of `FILE.py:FUNCTION`, which is called without arguments, or of a program that torch.export saved.

    Args:
        source: the author's own file; it is run.
        weights: a state dict in safetensors form or as `torch.save` writes it, read without running what it holds.

    Raises:
        ModelUnreadable: not such a file or function, or weights of another model.
    """
    try:
        module = _load_program(Path(source)) if source.endswith(".pt2") else _call(*source.rpartition(":")[::2])
        if weights:
            module.load_state_dict(_read_weights(weights))
    except (OSError, RuntimeError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise ModelUnreadable(f"{source} cannot be loaded: {error}") from None
    return module


def _load_program(path: Path) -> torch.nn.Module:
    return torch.export.load(path).module()


def _call(file: str, function: str) -> torch.nn.Module:
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        raise InputInvalid(f"{file or function!r} is no Python file", hint="give FILE.py:FUNCTION, or a .pt2 file")
    try:
        module = getattr(load_plugin(path.parent, path.name), function)()
    except AttributeError as error:
        raise ModelUnreadable(f"{path}: {error}", hint=f"define {function}() there, to return the module") from None
    if not isinstance(module, torch.nn.Module):
        raise ModelUnreadable(f"{function}() of {path} returns {type(module).__name__}, not a torch.nn.Module")
    return module


def _read_weights(path: Path) -> Mapping[str, Any]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        tensors: Mapping[str, Any] = load_file(path)
        return tensors
    state: Mapping[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _is_large(module: torch.nn.Module) -> bool:
    """Whether the weights do not fit into one protobuf file, with room for the graph."""
    weights = sum(int(p.numel()) * int(p.element_size()) for p in module.parameters())
    return weights > 1 << 30


def _last_line(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
