"""A Python plugin under plain Python and NumPy: what its wasm must answer too."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sandseal_sdk.plugin.byte_text import ByteText, as_byte_text
from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.plugin.values import Value, numpy_type
from sandseal_sdk.toolchains.plugin_module import load_plugin, own_namespaces
from sandseal_sdk.toolchains.signature import is_single, read_settings
from sandseal_signing.tensor import DataType, TensorSpec

_PYTHON_NUMBERS = (DataType.BOOL, DataType.INT64, DataType.FP64)


class Oracle:
    """A plugin's function, called as the wasm would be.

    Text goes in and comes out with one character for each byte (byte_text.py), as the translated function sees it.

    Args:
        spec: a Python plugin; its source is imported, which runs it on this machine, outside of any sandbox.
        assets: by name, as the plugin lists them.
    """

    def __init__(self, spec: PluginSpec, assets: dict[str, bytes]) -> None:
        self._spec = spec
        self._assets = [ByteText(assets[name].decode("latin-1")) for name in spec.assets]
        self.function = _load(spec)
        self._settings = read_settings(spec)

    def call(self, inputs: Sequence[Value], parameters: bytes = b"{}") -> Sequence[Value]:
        """What the function returns for these inputs, as the stage's outputs.

        Args:
            inputs: in the order of the spec.
            parameters: the request's, as JSON.

        Raises:
            Exception: whatever the function raises; a ValueError refuses the input.
        """
        given = [_argument(value, tensor) for value, tensor in zip(inputs, self._spec.inputs, strict=True)]
        documents = {"parameters": json.loads(parameters), "config": json.loads(self._spec.config)}
        settings = {setting.name: setting.read(documents[setting.origin]) for setting in self._settings}
        result = self.function(*given, *self._assets, **settings)
        outputs = self._spec.outputs
        results = result if len(outputs) > 1 else (result,)
        return [_value(result, tensor) for result, tensor in zip(results, outputs, strict=True)]


def _load(spec: PluginSpec) -> Callable[..., Any]:
    """The function, with the text in its modules' tables as bytes, which is what the built module reads."""
    module = load_plugin(spec.folder, spec.source)
    function: Callable[..., Any] = getattr(module, spec.function)
    for names in own_namespaces(spec.folder, module):
        names.update({name: as_byte_text(value) for name, value in names.items() if not name.startswith("__")})
    return function


def _argument(value: Value, tensor: TensorSpec) -> Any:
    if tensor.dtype is DataType.BYTES:
        texts = [ByteText(bytes(element).decode("latin-1")) for element in value.data]
        return texts[0] if is_single(tensor) else texts
    array = np.array(value.data)  # a copy: the function may write to it
    if tensor.shape:
        return array
    # A number of 64 bits is Python's own in the translated function, which matters for what it does to float32.
    return array.item() if tensor.dtype in _PYTHON_NUMBERS else array[()]


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
