"""What NumPy-Python plugins can say, construct by construct: functions that run in the sandbox and as plain Python."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sandseal_sdk.toolchains.plugin_module import load_plugin

FOLDER = Path(__file__).resolve().parents[1] / "sdk" / "constructs"
GROUPS = ("numbers", "text", "containers", "control", "arrays", "numerics")

# What a construct may take, by the name of its parameter: data type, shape, and the values of the calls.
INPUTS: Mapping[str, tuple[str, list[Any], Sequence[Any]]] = {
    "i": ("INT64", [], (np.int64(7), np.int64(-4), np.int64(2))),
    "j": ("INT64", [], (np.int64(-3), np.int64(11), np.int64(5))),
    "f": ("FP64", [], (np.float64(2.5), np.float64(-0.1), np.float64(1e-7))),
    "text": ("BYTES", [1], ([b" a quick, brown fox. "], [b"Hello"], ["a\u00e4b\u00df, !.".encode()])),
    "words": ("BYTES", ["n"], ([b"Hello", b"a", b"quick"], [b"a", b"b"], [b"x1", b"", b"\xc3\xa4pfel", b"12"])),
    "x": ("FP32", ["size"], tuple(np.array(v, np.float32) for v in ([1, -2.5, 3], [0.5, 0.25, 2.5], [-1, 1e-3, 4.5]))),
    "y": ("FP32", ["size"], tuple(np.array(v, np.float32) for v in ([1, 2, 3], [-1, 0.25, 2], [7, -7, 0.1]))),
    "k": ("INT64", ["count"], tuple(np.array(v, np.int64) for v in ([1, -2, 3], [10, 20, -30], [1 << 20, 5, -1]))),
    "m": (
        "FP32",
        ["rows", "columns"],
        tuple(np.random.default_rng(seed).normal(size=(2, 4)).astype(np.float32) for seed in range(3)),
    ),
    "image": (
        "UINT8",
        ["height", "width", 3],
        tuple(np.random.default_rng(seed).integers(0, 256, (3, 3, 3), np.uint8) for seed in range(3)),
    ),
}
CALLS = 3


@dataclass(frozen=True, slots=True)
class Construct:
    """One function of a group: its name, what it shows, the names of what it takes."""

    name: str
    shows: str
    takes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One file of constructs: its title and them, in order."""

    name: str
    title: str
    constructs: tuple[Construct, ...]

    @property
    def takes(self) -> list[str]:
        """The inputs of the plugin that calls all of them."""
        return [name for name in INPUTS if any(name in construct.takes for construct in self.constructs)]


def read_group(name: str) -> Group:
    """A group's constructs: the documented functions of its file."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    constructs = [
        Construct(node.name, shows, tuple(argument.arg for argument in node.args.args))
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and (shows := ast.get_docstring(node))
    ]
    return Group(name, ast.get_docstring(tree) or name, tuple(constructs))


def write_plugin(group: Group, folder: Path) -> None:
    """Write the plugin whose stage calls every construct of a group and returns all of their results."""
    source = (FOLDER / f"{group.name}.py").read_text(encoding="utf-8")
    calls = ", ".join(f"{construct.name}({', '.join(construct.takes)})" for construct in group.constructs)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plugin.py").write_text(
        f"{source}\n\ndef stage({', '.join(group.takes)}):\n    return {calls}\n", "utf-8"
    )
    module = load_plugin(folder, "plugin.py")
    tensors = [("inputs", name, *INPUTS[name][:2]) for name in group.takes]
    for construct in group.constructs:
        result = getattr(module, construct.name)(*(given(name, 0) for name in construct.takes))
        tensors.append(("outputs", construct.name, *_described(result, construct.name)))
    lines = ['schema = "sandseal.plugin/1"', f'name = "{group.name}"', 'language = "python"', 'source = "plugin.py"']
    lines += ['function = "stage"', 'stage = "pre"']
    for side, name, dtype, shape in tensors:
        lines += [f"[[{side}]]", f'name = "{name}"', f'dtype = "{dtype}"', f"shape = {shape}"]
    (folder / "plugin.toml").write_text("\n".join(lines), encoding="utf-8")


def given(name: str, call: int) -> Any:
    """An input as a function gets it."""
    dtype, shape, values = INPUTS[name]
    if dtype != "BYTES":
        return np.array(values[call])[()]
    texts = [text.decode("latin-1") for text in values[call]]
    return texts[0] if shape == [1] else texts


def _described(result: Any, name: str) -> tuple[str, list[Any]]:
    """The data type and shape of a result."""
    if isinstance(result, str):
        return "BYTES", [1]
    if isinstance(result, list) and isinstance(result[0], str):
        return "BYTES", [f"{name}_n"]
    array = np.asarray(result)
    kind = array.dtype.name.upper().replace("FLOAT", "FP")
    return kind, [f"{name}_{axis}" for axis in range(array.ndim)]
