"""A plugin in the host's own sandbox: the only module of the SDK that knows the host, and only when it runs."""

import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.plugin.preinit import State
from sandseal_sdk.plugin.values import Value
from sandseal_signing.errors import SandsealError
from sandseal_signing.tensor import DataType, TensorSpec

if TYPE_CHECKING:
    from sandseal_host.sandbox import Instance
    from sandseal_host.tensors import Tensor


_ONLY = 3  # the flags of a stream's first call that is its last


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one call of a fresh instance went.

    Args:
        outputs: in the order of the spec; empty when it failed.
        error: why it failed, or none.
        milliseconds: wall time, the instance's making included.
        fuel: WebAssembly instructions, the same on every machine; 0 where they are not counted.
        memory_bytes: linear memory at the end, which never shrinks.
    """

    outputs: Sequence[Value]
    error: SandsealError | None
    milliseconds: float
    fuel: int
    memory_bytes: int


class PluginSandbox:
    """A compiled plugin to call.

    Args:
        wasm: the module.
        spec: the plugin that it is of.
        assets: by name, as the plugin lists them.
        log: gets what the plugin logs, with its name.
        fuel: count instructions, which costs some time; else run as a host does, memory pool included.

    Raises:
        PluginError: the host does not accept the module.
    """

    def __init__(
        self,
        wasm: bytes,
        spec: PluginSpec,
        assets: Mapping[str, bytes],
        log: Callable[[str], None],
        *,
        fuel: bool = True,
    ) -> None:
        from sandseal_host.sandbox import SandboxEngine

        self.spec = spec
        with ExitStack() as opened:
            pooling = False if fuel else None
            engine = SandboxEngine(log=lambda label, level, line: log(f"{label}: {line}"), pooling=pooling, fuel=fuel)
            opened.enter_context(engine)
            self._plugin = engine.compile(wasm, spec.stage, assets=assets, label=spec.name)
            opened.enter_context(self._plugin)
            self._opened = opened.pop_all()

    def attempt(self, inputs: Sequence[Value], parameters: bytes = b"{}") -> Attempt:
        """Call a fresh instance.

        Args:
            inputs: in the order of the spec.
            parameters: the request's, UTF-8 JSON.
        """
        tensors = self.tensors(inputs)
        began = time.perf_counter()
        with self.instance() as instance:
            try:
                flags = _ONLY if self.spec.mode == "stream" else 0
                outputs, error = instance.call(tensors, parameters, flags=flags), None
            except SandsealError as failure:
                outputs, error = (), failure
            milliseconds = 1000 * (time.perf_counter() - began)
            usage = instance.usage()
        return Attempt([_value(o) for o in outputs], error, milliseconds, usage.fuel, usage.memory_bytes)

    def instance(self) -> "Instance":
        """A fresh instance of the host's kind."""
        return self._plugin.instance()

    def tensors(self, inputs: Sequence[Value]) -> "list[Tensor]":
        """Inputs as an instance takes them."""
        return [_tensor(value, tensor) for value, tensor in zip(inputs, self.spec.inputs, strict=True)]

    def close(self) -> None:
        """Free the engine."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def initialise(wasm: bytes, spec: PluginSpec) -> State:
    """Run a module's `_initialize` where its imports trap.

    Raises:
        PluginError: it fails, or leaves what a module cannot start with.
    """
    from sandseal_host.sandbox import take_snapshot

    return take_snapshot(wasm, spec.limits.memory_mib << 20, spec.name)


def trace(
    wasm: bytes,
    spec: PluginSpec,
    assets: Mapping[str, bytes],
    inputs: Sequence[Value],
    parameters: bytes,
    sources: Collection[str],
) -> Sequence[str]:
    """The frames of a call that traps, innermost first, with file and line where that is one of `sources`."""
    os.environ["WASMTIME_BACKTRACE_DETAILS"] = "1"  # read when an engine is made
    try:
        sandbox = PluginSandbox(wasm, spec, assets, lambda line: None)
    except SandsealError:
        return ()
    finally:
        del os.environ["WASMTIME_BACKTRACE_DETAILS"]
    with sandbox:
        error = sandbox.attempt(inputs, parameters).error
    return [_shown(frame, sources) for frame in error.data.get("frames", ())] if error else ()


def _shown(frame: Mapping[str, Any], sources: Collection[str]) -> str:
    """A frame in one line; of functions inlined there, the innermost that the author wrote."""
    places = (re.search(r"([^/\\]+):(\d+):\d+$", place) for place in frame.get("at", ()))
    theirs = next((f" at {place[1]}:{place[2]}" for place in places if place and place[1] in sources), "")
    return f"    in {frame['function']}{theirs}"


def _tensor(value: Value, tensor: TensorSpec) -> "Tensor":
    from sandseal_host.tensors import Tensor, pack_bytes

    data = pack_bytes([bytes(e) for e in value.data]) if tensor.dtype is DataType.BYTES else np.asarray(value.data)
    return Tensor(tensor.name, tensor.dtype, value.shape, data)


def _value(tensor: "Tensor") -> Value:
    from sandseal_host.tensors import unpack_bytes

    return Value(tensor.shape, unpack_bytes(tensor) if tensor.dtype is DataType.BYTES else tensor.data)
