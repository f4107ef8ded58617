"""What a stage's function takes: tensors, assets and settings, in Python's types.

    def postprocess(scores: NDArray[np.float32], labels: str, *, top_k: int, threshold: float):

The positional parameters are the inputs and then the assets of plugin.toml, which also gives their types; annotations
may say the same. After `*` come settings by name: a member of [parameters] is what a request may set, a member of
[config] what the publisher signs; plugin.toml gives the value when neither is there.
"""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandseal_sdk.plugin.byte_text import as_byte_text
from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.plugin.values import numpy_type
from sandseal_sdk.toolchains.plugin_source import Unsupported, parse_source
from sandseal_signing.tensor import DataType, TensorSpec

_SCALARS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A keyword parameter of the stage's function.

    Args:
        name: the parameter's and the JSON member's.
        origin: `parameters` or `config`.
        kind: its type as Python writes it: int, float, bool, str, list[...] of one or dict[str, ...].
        default: what plugin.toml says.
    """

    name: str
    origin: str
    kind: str
    default: Any

    def read(self, document: Mapping[str, Any]) -> Any:
        """The value in a request's parameters or the config.

        Raises:
            ValueError: it is of another type.
        """
        value = document.get(self.name, self.default)
        if not _is(value, self.kind):
            raise ValueError(f"{self.origin}: {self.name} must be {self.kind}")
        return _as(value, self.kind)


def is_single(tensor: TensorSpec) -> bool:
    """Whether a tensor always holds exactly one element; a BYTES tensor is then a `str`, else a list of them."""
    return all(axis == 1 for axis in tensor.shape)


def read_settings(spec: PluginSpec) -> tuple[Setting, ...]:
    """The settings that a stage's function takes, after checking all of its parameters.

    Raises:
        Unsupported: there is no such function, or its parameters are not those of plugin.toml.
    """
    function = parse_source(spec.source, spec.source_text, spec.function)
    _check_positional(spec, function)
    places = {"config": json.loads(spec.config), "parameters": spec.parameters}
    settings = [_setting(spec, argument, places) for argument in function.args.kwonlyargs]
    if extra := set(spec.parameters) - {setting.name for setting in settings}:
        why = f"[parameters] of plugin.toml has {', '.join(sorted(extra))}, which {function.name} does not take"
        raise Unsupported(spec.source, function.lineno, why, "name it after a `*` in the function's parameters")
    return tuple(settings)


def _setting(spec: PluginSpec, argument: ast.arg, places: Mapping[str, Mapping[str, Any]]) -> Setting:
    name = argument.arg
    origin = next((origin for origin, values in places.items() if name in values), None)
    if origin is None:
        why = f"{name} is neither in [parameters] nor in [config] of plugin.toml"
        raise Unsupported(spec.source, argument.lineno, why, "add it there with the value that stands by default")
    default = places[origin][name]
    kind = ast.unparse(argument.annotation) if argument.annotation else _kind(default)
    if kind is None or not _is_kind(kind):
        why = f"{name} cannot be {kind or 'of the type that its value in plugin.toml has'}"
        hint = "settings are int, float, bool, str, list[...] of one of these or dict[str, ...]"
        raise Unsupported(spec.source, argument.lineno, why, hint)
    if not _is(default, kind):
        raise Unsupported(spec.source, argument.lineno, f"{name} is {kind}, but plugin.toml gives {default!r}")
    return Setting(name, origin, kind, default)


def _check_positional(spec: PluginSpec, function: ast.FunctionDef) -> None:
    given = function.args
    wanted = [(tensor.name, _annotations(tensor)) for tensor in spec.inputs]
    wanted += [(name, ("str",)) for name in spec.assets]
    plain = not (given.vararg or given.kwarg or given.defaults or any(given.kw_defaults))
    arguments = given.posonlyargs + given.args
    if not plain or len(arguments) != len(wanted):
        names = ", ".join(name for name, _ in wanted)
        why = f"{function.name} must take one plain parameter for each of: {names}"
        hint = "settings stand after a `*`, and plugin.toml has their defaults"
        raise Unsupported(spec.source, function.lineno, why, hint)
    for argument, (name, annotations) in zip(arguments, wanted, strict=True):
        if argument.annotation is not None and _bare(argument.annotation) not in annotations:
            why = f"{name} is not {ast.unparse(argument.annotation)}: plugin.toml makes it {annotations[0]}"
            raise Unsupported(spec.source, argument.lineno, why, "correct the annotation or plugin.toml")


def _annotations(tensor: TensorSpec) -> tuple[str, ...]:
    """How an annotation may say what a tensor is; the first is the most exact."""
    if tensor.dtype is DataType.BYTES:
        return ("str",) if is_single(tensor) else ("list[str]",)
    kind = numpy_type(tensor.dtype)
    if tensor.shape:
        return f"NDArray[{kind.name}]", "ndarray", f"NDArray[{kind.name}_]", "NDArray", "NDArray[Any]"
    python = {"b": "bool", "i": "int", "u": "int", "f": "float"}[kind.kind]
    return python, kind.name, f"{kind.name}_"


def _bare(annotation: ast.expr) -> str:
    """An annotation without module names: `npt.NDArray[np.float32]` is NDArray[float32]."""
    match annotation:
        case ast.Attribute():
            return annotation.attr
        case ast.Subscript():
            return f"{_bare(annotation.value)}[{_bare(annotation.slice)}]"
        case ast.Constant(value=str() as quoted):
            return _bare(ast.parse(quoted, mode="eval").body)
    return ast.unparse(annotation)


def _kind(value: Any) -> str | None:
    """The type of a JSON value, if a setting can have it."""
    if type(value) in _SCALARS:
        return _SCALARS[type(value)]
    if isinstance(value, (list, dict)):
        kinds = {_kind(element) for element in (value.values() if isinstance(value, dict) else value)}
        inner = "float" if kinds == {"int", "float"} else kinds.pop() if len(kinds) == 1 else None
        return inner and (f"dict[str, {inner}]" if isinstance(value, dict) else f"list[{inner}]")
    return None


def _is_kind(kind: str) -> bool:
    return kind in _SCALARS.values() or (inner_kind(kind) is not None and _is_kind(inner_kind(kind) or ""))


def inner_kind(kind: str) -> str | None:
    """The type of what a list or dict holds; None for anything else."""
    for start in ("list[", "dict[str, "):
        if kind.startswith(start) and kind.endswith("]"):
            return kind[len(start) : -1]
    return None


def _is(value: Any, kind: str) -> bool:
    if inner := inner_kind(kind):
        wanted, elements = (dict, "values") if kind.startswith("dict") else (list, "__iter__")
        return isinstance(value, wanted) and all(_is(element, inner) for element in getattr(value, elements)())
    if type(value) is int:
        return kind in ("int", "float") and -(1 << 63) <= value < 1 << 63
    return _SCALARS.get(type(value)) == kind


def _as(value: Any, kind: str) -> Any:
    """A value as the function sees it: floats as such, text with a character for each byte."""
    if inner := inner_kind(kind):
        if isinstance(value, dict):
            return {_as(key, "str"): _as(element, inner) for key, element in value.items()}
        return [_as(element, inner) for element in value]
    if kind == "float":
        return float(value)
    return as_byte_text(value) if kind == "str" else value
