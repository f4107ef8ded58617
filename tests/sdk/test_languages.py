"""Every language's library, used as its authors use it: one plugin per language, whose stages say what they see."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandseal_host.errors import InputRefused, PluginTrapped
from sandseal_host.sandbox import Plugin, SandboxEngine
from sandseal_host.tensors import Tensor, pack_bytes, unpack_bytes
from sandseal_sdk.build import BuildResult, build_plugin
from sandseal_signing.stage import StageSpec
from sandseal_signing.tensor import DataType, TensorSpec
from support.rust import find_rust_or_skip

TOURS = Path(__file__).parent / "tours"
SOURCES = {"c": "tour.c", "cpp": "tour.cpp", "zig": "tour.zig", "assemblyscript": "tour.ts", "rust": "tour.rs"}
ALL_IMPORTS = ("asset", "log", "now", "random")
ABI = (Path(__file__).parents[2] / "sdk/abi/abi-v1.md").read_text(encoding="utf-8")


def tensor(name: str, dtype: str, axis: int | str = "n") -> TensorSpec:
    return TensorSpec(name, DataType(dtype), (axis,))


TEXTS, X = (tensor("texts", "BYTES"),), (tensor("x", "FP32"),)
STAGES: Mapping[str, tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]] = {
    "layout": (X, (tensor("facts", "INT64", "m"),)),
    "texts": (TEXTS, (tensor("out", "BYTES", "m"),)),
    "numbers": (TEXTS, (tensor("y", "FP64"),)),
    "asks": (X, (tensor("y", "INT64", 3),)),
    "vectors": (
        (*X, tensor("pixels", "UINT8")),
        (tensor("sums", "FP32", 2), tensor("scaled", "FP32"), tensor("shown", "FP32")),
    ),
    "faulty": (X, (tensor("y", "FP32", 1),)),
}


class Tour:
    """A built tour in one language."""

    def __init__(self, language: str, built: BuildResult) -> None:
        self.language = language
        self.logged: list[str] = []
        self._wasm, self._stage = built.wasm.read_bytes(), built.spec.stage
        self._engine = SandboxEngine(log=lambda label, level, line: self.logged.append(line), pooling=False)
        self._plugins: dict[str, Plugin] = {}

    def plugin(self, stage: str) -> Plugin:
        if stage not in self._plugins:
            inputs, outputs = STAGES[stage]
            spec: StageSpec = replace(self._stage, function=stage, inputs=inputs, outputs=outputs)
            self._plugins[stage] = self._engine.compile(self._wasm, spec, assets={"table.bin": b"abc"}, label="tour")
        return self._plugins[stage]

    def call(self, stage: str, *values: Any, params: bytes = b"{}") -> list[Any]:
        return [plain(output) for output in self.plugin(stage).call(tensors(stage, *values), params)]

    def close(self) -> None:
        for plugin in self._plugins.values():
            plugin.close()
        self._engine.close()


def tensors(stage: str, *values: Any) -> list[Tensor]:
    return [
        Tensor(spec.name, spec.dtype, (len(value),), pack_bytes(value))
        if spec.dtype is DataType.BYTES
        else Tensor(spec.name, spec.dtype, np.shape(value), np.asarray(value))
        for spec, value in zip(STAGES[stage][0], values, strict=True)
    ]


def plain(output: Tensor) -> Any:
    return unpack_bytes(output) if output.dtype is DataType.BYTES else output.data.tolist()


@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param(language, marks=pytest.mark.slow) for language in ("zig", "assemblyscript", "rust")),
        "c",
        "cpp",
    ],
)
def tour(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    language = request.param
    if language == "rust":
        find_rust_or_skip()
    folder = tmp_path_factory.mktemp(language)
    (folder / SOURCES[language]).write_bytes((TOURS / SOURCES[language]).read_bytes())
    (folder / "table.bin").write_bytes(b"abc")
    (folder / "plugin.toml").write_text(
        f"""schema = "sandseal.plugin/1"
name = "tour"
language = "{language}"
source = "{SOURCES[language]}"
function = "layout"
stage = "pre"
imports = {list(ALL_IMPORTS)}
assets = ["table.bin"]
config = {{ scale = 0.25 }}
limits = {{ memory_mib = 8 }}
inputs = [{{ name = "x", dtype = "FP32", shape = ["n"] }}]
outputs = [{{ name = "facts", dtype = "INT64", shape = ["m"] }}]
""",
        encoding="utf-8",
    )
    tour = Tour(language, build_plugin(folder))
    yield tour
    tour.close()


def abi_facts() -> list[int]:
    """What abi-v1.md says: size and field offsets of the call and of a tensor, data types, levels of a log line."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in ABI.splitlines() if line.startswith("| ")]
    offsets = [int(row[0]) for row in rows if row[0].isdigit() and re.match(r"[ui](32|64)", row[1])]
    call, tensor = (int(size) for size in re.findall(r"### `\w+`: (\d+) bytes", ABI))
    types = [int(row[0]) for row in rows if row[0].isdigit() and row[1] in DataType.__members__]
    levels = re.findall(r"(\d) (?:debug|info|warning|and above error)", ABI)
    second = offsets.index(0, 1)
    return [call, *offsets[:second], tensor, *offsets[second:], *types, *map(int, levels)]


def test_the_constants_are_those_of_the_abi_text(tour: Tour) -> None:
    wanted = abi_facts()
    assert len(wanted) == 1 + 12 + 1 + 8 + 14 + 4
    if tour.language == "cpp":  # its structs are sandseal.h's
        wanted = [wanted[0], 32, wanted[13], 24, *wanted[-4:]]
    assert tour.call("layout", np.zeros(1, np.float32)) == [wanted]


def test_bytes_elements_are_read_and_written(tour: Tour) -> None:
    texts = [b"abc", b"", b"\0\xff", bytes(range(256)) * 500]
    assert tour.call("texts", texts) == [[text[::-1] for text in texts] + [b"end"]]


def test_a_refusal_carries_its_text(tour: Tour) -> None:
    with pytest.raises(InputRefused, match=r"^keine Wörter$"):
        tour.call("texts", [])


NUMBERS = {
    "three": 3,
    "minus": -2.5,
    "large": 9007199254740991,
    "small": 1.5e-7,
    "exponent": 2.5e20,
    "nested": {"three": 7, "list": [1, 2]},
    "text": "three",
    "after": 1,
}


@pytest.mark.parametrize("style", [{}, {"indent": 2}, {"separators": (",", ":")}], ids=["plain", "indented", "tight"])
def test_parameters_and_config_are_read(tour: Tour, style: Mapping[str, Any]) -> None:
    wanted = {name: value if isinstance(value, (int, float)) else -1 for name, value in NUMBERS.items()}
    wanted |= {"list": -1, "absent": -1}  # one is nested, one is not there
    params = json.dumps({'quo"ted': 4, **NUMBERS}, **style).encode()
    (found,) = tour.call("numbers", [name.encode() for name in wanted], params=params)
    assert found == pytest.approx([0.25 * value for value in wanted.values()], rel=1e-15)


def test_the_host_answers(tour: Tour) -> None:
    before = 1000 * time.time()
    ((asset, now, differs),) = tour.call("asks", np.zeros(1, np.float32))
    assert (asset, differs) == (3 * 1000 + ord("b"), 1)
    assert before - 1 <= now <= 1000 * time.time() + 1
    assert "asked" in tour.logged


def test_many_numbers_at_once(tour: Tour) -> None:
    random = np.random.default_rng(7)
    for n in (0, 1, 15, 16, 17, 1003):
        x, pixels = random.random(n, np.float32), random.integers(0, 256, n, np.uint8)
        sums, scaled, shown = tour.call("vectors", x, pixels)
        assert sums == pytest.approx([x.sum(dtype=float), (x.astype(float) ** 2).sum()], rel=1e-5)
        assert scaled == pytest.approx((x * 0.5 + 1).tolist(), rel=1e-6)
        assert shown == (pixels * np.float32(0.25) - 1).tolist()


def test_a_fault_is_traced_to_the_authors_function(tour: Tour) -> None:
    assert tour.call("faulty", np.ones(1, np.float32)) == [[1.0]]
    with pytest.raises(PluginTrapped) as caught:
        tour.call("faulty", np.ones(3, np.float32))
    functions = " ".join(frame["function"] for frame in caught.value.data["frames"])
    assert re.search("deep_inside|faulty", functions)  # one of them may be inlined into the other


# Where a language checks indices, its words for a wrong one reach the log.
WORDS = {
    "zig": "index out of bounds: index 2, len 1",
    "assemblyscript": "index out of range",
    "rust": "index out of bounds: the len is 1 but the index is 2",
}


def test_what_went_wrong_is_logged(tour: Tour) -> None:
    tour.logged.clear()
    with pytest.raises(PluginTrapped):
        tour.call("faulty", np.ones(3, np.float32))
    assert [WORDS[tour.language] in line for line in tour.logged] == [True] * (tour.language in WORDS)


def test_a_further_call_gets_the_memory_back(tour: Tour) -> None:
    values = tensors("vectors", np.zeros(100_000, np.float32), np.zeros(100_000, np.uint8))
    sizes = set()
    with tour.plugin("vectors").instance() as instance:
        for _ in range(50):
            instance.call(values)
            sizes.add(instance.usage().memory_bytes)
    assert len(sizes) == 1
