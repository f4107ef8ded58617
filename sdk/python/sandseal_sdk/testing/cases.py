r"""A plugin's test cases: cases/NAME.json beside its source.

    {
      "inputs": {"content": "#!/bin/sh\n"},
      "outputs": {"label": ["shell"], "score": [0.98]},    absent: only that the call succeeds is checked
      "tolerance": 1e-5,                                   relative and absolute, of floating-point outputs
      "parameters": {"top_k": 3},                          the request's parameters
      "limits": {"fuel": 50000, "memory_mib": 2, "time_ms": 5}     what the call may use, each if it is to be checked
    }

or, in place of "outputs", "refused": a part of the text with which the plugin refuses the input, or "fails": the code
of the error (plugin_trapped, plugin_timeout, ...). `sandseal test --update` writes "outputs" of cases that have them;
{} there stands for all of them.

A tensor is written as a number, text or a nested list of them, or as one of the objects

    {"file": "scan.png"}              bytes of a file beside the case; a .npy file is an array
    {"base64": "AAEC"}                bytes
    {"shape": [1, 3], "fill": 0.5, "set": [[0, 2, 0.9]]}     one value, then index and value of exceptions
    {"shape": [224, 224, 3], "random": 7}                    seeded: any integers, or floats from 0 to 1

Bytes (and text, as UTF-8) are the elements of a UINT8 tensor, or one element of a BYTES tensor.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandseal_sdk.errors import CaseInvalid
from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.plugin.values import Value, read_value, write_value
from sandseal_signing.errors import SandsealError
from sandseal_signing.schema import Node, parse_json

FOLDER = "cases"


@dataclass(frozen=True, slots=True)
class CaseLimits:
    """What one call may use at most; none where it is not checked.

    Args:
        fuel: WebAssembly instructions, the same on every machine.
        memory_mib: linear memory at the end of the call.
        time_ms: wall time.
    """

    fuel: int | None = None
    memory_mib: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One call and what must come of it.

    Args:
        path: the file; its name without .json is the case's.
        inputs: in the order of the stage's spec.
        golden: whether it says what the outputs are, or is to.
        outputs: wanted values by name; those left out are not compared.
        tolerance: of floating-point outputs.
        parameters: the request's, as JSON.
        limits: what the call may use.
        refused: part of the refusal's text, when the input must be refused.
        fails: the wanted error's code, when the call must fail.
    """

    path: Path
    inputs: Sequence[Value]
    golden: bool
    outputs: dict[str, Value]
    tolerance: float
    parameters: bytes
    limits: CaseLimits
    refused: str | None
    fails: str | None

    @property
    def name(self) -> str:
        """The case's name."""
        return self.path.stem


def case_files(folder: Path) -> Sequence[Path]:
    """The files of a plugin folder's cases, by name."""
    return sorted((folder / FOLDER).glob("*.json"))


def read_cases(spec: PluginSpec) -> Sequence[Case]:
    """Read all of a plugin's cases, by name.

    Raises:
        CaseInvalid: there is none, or one cannot be read; the message names file and place.
    """
    paths = case_files(spec.folder)
    if not paths:
        raise CaseInvalid(
            f"{spec.folder / FOLDER} holds no test case", hint='write one: cases/first.json with {"inputs": {...}}'
        )
    return [read_case(path, spec) for path in paths]


def read_case(path: Path, spec: PluginSpec) -> Case:
    """Read one case.

    Raises:
        CaseInvalid: it cannot be read; the message names file and place.
    """
    try:
        node = Node(parse_json(path.read_bytes(), path.name), "", CaseInvalid)
        case = _case(path, node, spec)
        node.close()
    except (OSError, ValueError) as error:
        raise CaseInvalid(f"{path}: {error}") from None
    except SandsealError as error:
        raise CaseInvalid(f"{path}: {error.message}", **error.data) from None
    return case


def write_outputs(case: Case, spec: PluginSpec, outputs: Sequence[Value]) -> Case:
    """Write what a plugin answers into a golden case, and return the case as it now is.

    Files that the case names are written again; new large tensors go to CASE.OUTPUT.npy.

    Args:
        outputs: all of them, in the order of the spec.
    """
    document = parse_json(case.path.read_bytes(), case.path.name)
    wanted = document["outputs"]
    names = set(wanted) or {tensor.name for tensor in spec.outputs}
    for value, tensor in zip(outputs, spec.outputs, strict=True):
        if tensor.name in names:
            before = wanted.get(tensor.name)
            file = before.get("file") if isinstance(before, dict) else None
            name = file or f"{case.name}.{tensor.name}.npy"
            wanted[tensor.name] = write_value(value, tensor, case.path.parent, name, inline=file is None)
    lines = (f"  {json.dumps(name)}: {json.dumps(member, ensure_ascii=False)}" for name, member in document.items())
    case.path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8", newline="\n")
    return read_case(case.path, spec)


def _case(path: Path, node: Node, spec: PluginSpec) -> Case:
    inputs, wanted = node.child("inputs"), node.child("outputs", None)
    tolerance = node.take("tolerance", 1e-5)
    if not isinstance(tolerance, (int, float)):
        node.fail("tolerance", "must be a number")
    case = Case(
        path=path,
        inputs=[_input(inputs, spec, i, path.parent) for i in range(len(spec.inputs))],
        golden=wanted is not None,
        outputs=dict(_outputs(wanted, spec, path.parent)) if wanted else {},
        tolerance=float(tolerance),
        parameters=json.dumps(node.take("parameters", {})).encode(),
        limits=_limits(node.child("limits", None)),
        refused=node.text("refused", None),
        fails=node.text("fails", None),
    )
    inputs.close()
    if sum((case.golden, case.refused is not None, case.fails is not None)) > 1:
        node.fail("", 'has more than one of "outputs", "refused" and "fails"')
    return case


def _input(node: Node, spec: PluginSpec, index: int, folder: Path) -> Value:
    tensor = spec.inputs[index]
    return read_value(node.take(tensor.name), tensor, folder, node.at(tensor.name))


def _outputs(node: Node, spec: PluginSpec, folder: Path) -> Iterator[tuple[str, Value]]:
    for tensor in spec.outputs:
        if node.has(tensor.name):
            yield tensor.name, read_value(node.take(tensor.name), tensor, folder, node.at(tensor.name))
    node.close()


def _limits(node: Node | None) -> CaseLimits:
    if node is None:
        return CaseLimits()
    limits = CaseLimits(*(node.integer(name, None, low=1) for name in ("fuel", "memory_mib", "time_ms")))
    node.close()
    return limits
