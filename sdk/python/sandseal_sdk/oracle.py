"""A Python plugin under plain Python and NumPy: what its wasm must answer too."""

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sandseal_sdk.cases import Value, numpy_type
from sandseal_sdk.errors import PluginFolderInvalid
from sandseal_sdk.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.glue import is_single
from sandseal_signing.manifest import DataType, TensorSpec


class Oracle:
    """A plugin's function, called as the wasm would be.

    Text goes in and comes out as latin-1, one character for each byte, which is how the translated function sees it.

    Args:
        spec: a Python plugin; its source is imported, which runs it on this machine, outside of any sandbox.
        assets: by name, as the plugin lists them.
    """

    def __init__(self, spec: PluginSpec, assets: dict[str, bytes]) -> None:
        self._spec = spec
        self._assets = [assets[name].decode("latin-1") for name in spec.assets]
        self.function = _load(spec)

    def call(self, inputs: Sequence[Value]) -> Sequence[Value]:
        """What the function returns for these inputs, as the stage's outputs.

        Raises:
            Exception: whatever the function raises; a ValueError refuses the input.
        """
        given = [_argument(value, tensor) for value, tensor in zip(inputs, self._spec.inputs, strict=True)]
        result = self.function(*given, *self._assets)
        outputs = self._spec.outputs
        results = result if len(outputs) > 1 else (result,)
        return [_value(result, tensor) for result, tensor in zip(results, outputs, strict=True)]


def _load(spec: PluginSpec) -> Callable[..., Any]:
    path = spec.folder / spec.source
    found = importlib.util.spec_from_file_location(f"plugin_{spec.name}", path)
    if found is None or found.loader is None:
        raise PluginFolderInvalid(f"{path} is no Python file")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, spec.function)
    return function


def _argument(value: Value, tensor: TensorSpec) -> Any:
    if tensor.dtype is DataType.BYTES:
        texts = [bytes(element).decode("latin-1") for element in value.data]
        return texts[0] if is_single(tensor) else texts
    array = np.array(value.data)  # a copy: the function may write to it
    return array if tensor.shape else array[()]


def _value(result: Any, tensor: TensorSpec) -> Value:
    if tensor.dtype is DataType.BYTES:
        texts = [result] if isinstance(result, str) else list(result)
        return Value(_shape(tensor, len(texts)), [text.encode("latin-1") for text in texts])
    array = np.asarray(result).astype(numpy_type(tensor.dtype), casting="same_kind")
    return Value(array.shape, array)


def _shape(tensor: TensorSpec, count: int) -> tuple[int, ...]:
    """A BYTES output's shape: its elements fill the fixed axes and the free one."""
    fixed = [axis for axis in tensor.shape if isinstance(axis, int)]
    free = count // max(1, int(np.prod(fixed)))
    return tuple(axis if isinstance(axis, int) else free for axis in tensor.shape)
