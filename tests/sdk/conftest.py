from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandseal_host.sandbox import Plugin, SandboxEngine
from sandseal_host.tensors import Tensor, pack_bytes, unpack_bytes
from sandseal_sdk.build import BuildResult
from sandseal_sdk.plugin.plugin_spec import LANGUAGES
from sandseal_signing.tensor import DataType, TensorSpec

Specs = Sequence[tuple[str, str, list[int | str]]]
X: Specs = [("x", "FP32", ["n"])]
Y: Specs = [("y", "FP32", ["m"])]


@pytest.fixture(scope="session")
def engine() -> Iterator[SandboxEngine]:
    with SandboxEngine(pooling=False) as engine:
        yield engine


@pytest.fixture
def make_plugin(tmp_path: Path) -> Callable[..., Path]:
    """Writes a plugin's folder: `make_plugin("c", source, inputs=..., outputs=..., rest='imports = ["log"]')`."""

    def make(
        language: str, source: str, inputs: Specs = X, outputs: Specs = Y, *, rest: str = "", name: str = "tried"
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        file = LANGUAGES[language]
        lines = ['schema = "sandseal.plugin/1"', f'name = "{name}"', f'language = "{language}"', f'source = "{file}"']
        lines += ['function = "stage"', 'stage = "pre"', rest]
        for side, specs in (("inputs", inputs), ("outputs", outputs)):
            for tensor, dtype, shape in specs:
                lines += [f"[[{side}]]", f'name = "{tensor}"', f'dtype = "{dtype}"', f"shape = {shape}"]
        (folder / "plugin.toml").write_text("\n".join(lines), encoding="utf-8")
        (folder / file).write_text(source, encoding="utf-8")
        return folder

    return make


@pytest.fixture
def call(engine: SandboxEngine) -> Iterator[Callable[..., list[Any]]]:
    """Calls a built plugin: arrays in (a list of bytes for BYTES), arrays (or lists of bytes) out."""
    compiled: dict[Path, Plugin] = {}

    def run(
        built: BuildResult, *inputs: Any, assets: dict[str, bytes] | None = None, params: bytes = b"{}"
    ) -> list[Any]:
        if built.wasm not in compiled:
            compiled[built.wasm] = engine.compile(built.wasm.read_bytes(), built.spec.stage, assets=assets)
        tensors = [_tensor(spec, value) for spec, value in zip(built.spec.inputs, inputs, strict=True)]
        return [_plain(output) for output in compiled[built.wasm].call(tensors, params)]

    yield run
    for plugin in compiled.values():
        plugin.close()


def _tensor(spec: TensorSpec, value: Any) -> Tensor:
    if spec.dtype is DataType.BYTES:
        return Tensor(spec.name, spec.dtype, (len(value),), pack_bytes(value))
    return Tensor(spec.name, spec.dtype, np.shape(value), np.asarray(value))


def _plain(tensor: Tensor) -> Any:
    return unpack_bytes(tensor) if tensor.dtype is DataType.BYTES else tensor.data
