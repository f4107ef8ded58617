"""The C++ between the ABI and a translated Python function."""

import json
from collections.abc import Iterator, Sequence

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.signature import Setting, inner_kind, is_single
from sandseal_signing.tensor import DataType, TensorSpec

# C++ and Pythran names of what an array may hold.
_TYPES = {
    DataType.BOOL: ("bool", "bool"),
    DataType.UINT8: ("uint8_t", "uint8"),
    DataType.UINT16: ("uint16_t", "uint16"),
    DataType.UINT32: ("uint32_t", "uint32"),
    DataType.UINT64: ("uint64_t", "uint64"),
    DataType.INT8: ("int8_t", "int8"),
    DataType.INT16: ("int16_t", "int16"),
    DataType.INT32: ("int32_t", "int32"),
    DataType.INT64: ("int64_t", "int64"),
    DataType.FP32: ("float", "float32"),
    DataType.FP64: ("double", "float64"),
}


# The C++ and Pythran names of what a setting may be.
_SCALARS = {
    "bool": ("bool", "bool"),
    "int": ("long", "int"),
    "float": ("double", "float"),
    "str": ("types::str", "str"),
}


def parameter_types(spec: PluginSpec, settings: Sequence[Setting]) -> list[str]:
    """The function's parameters as Pythran writes types.

    Raises:
        BuildError: a tensor's data type does not exist in Pythran.
    """
    types = [_parameter_type(tensor) for tensor in spec.inputs] + ["str"] * len(spec.assets)
    return types + [_kind(setting.kind, "{} list", "str:{} dict", 1) for setting in settings]


def _parameter_type(tensor: TensorSpec) -> str:
    if tensor.dtype is DataType.BYTES:
        return "str" if is_single(tensor) else "str list"
    rank = len(tensor.shape)
    # Of arrays with several axes Pythran would export a Fortran-ordered variant too, in every combination.
    order = " order(C)" if rank > 1 else ""
    return _type(tensor, 1) + (f"[{','.join(':' * rank)}]{order}" if rank else "")


def render_glue(spec: PluginSpec, settings: Sequence[Setting]) -> str:
    """The file that includes the translated plugin.cpp and exports the stage."""
    arguments = [_argument(i, tensor) for i, tensor in enumerate(spec.inputs)]
    arguments += [f"sandseal::asset({json.dumps(name)})" for name in spec.assets]
    arguments += [_from_json(setting) for setting in settings]
    lines = [
        "#include <sandseal_text.hpp>",
        '#include "tables.hpp"',
        "#include <sandseal_format.hpp>",
        '#include "plugin.cpp"',
        "#include <sandseal_python.hpp>",
        "#include <sandseal_json.hpp>",
        "",
        "namespace types = pythonic::types;",
        "",
        f'extern "C" SANDSEAL_EXPORT("{spec.function}") int32_t sandseal_stage(struct sandseal_call *call)',
        "{",
        "    sandseal::begin(call);",
        f"    auto result = __pythran_plugin::{spec.function}()(",
        ",\n".join(f"        {argument}" for argument in arguments) + ");",
        *(f"    {line}" for line in _outputs(spec)),
        "    return SANDSEAL_DONE;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _argument(index: int, tensor: TensorSpec) -> str:
    if tensor.dtype is DataType.BYTES:
        return f"sandseal::{'text' if is_single(tensor) else 'texts'}({index})"
    if not tensor.shape:
        return f"sandseal::scalar<{_type(tensor, 0)}>({index})"
    axes = (f"std::integral_constant<long, {axis}>" if isinstance(axis, int) else "long" for axis in tensor.shape)
    return f"sandseal::array<{', '.join((_type(tensor, 0), *axes))}>({index})"


def _from_json(setting: Setting) -> str:
    """The expression that reads a setting, else gives its value in plugin.toml."""
    kind = _kind(setting.kind, "types::list<{}>", "types::dict<types::str, {}>", 0)
    words = json.dumps(f"{setting.origin}: {setting.name} must be {setting.kind}")
    name, default = json.dumps(setting.name), json.dumps(json.dumps(setting.default))
    return f"sandseal::setting<{kind}>(sandseal::{setting.origin}(), {name}, {default}, {words})"


def _kind(kind: str, a_list: str, a_dict: str, column: int) -> str:
    """A setting's type, in the words of one of the columns of _SCALARS."""
    if inner := inner_kind(kind):
        return (a_dict if kind.startswith("dict") else a_list).format(_kind(inner, a_list, a_dict, column))
    return _SCALARS[kind][column]


def _outputs(spec: PluginSpec) -> Iterator[str]:
    count = len(spec.outputs)
    if count > 1:
        yield _must(
            f"sandseal::Count<decltype(result)>::value == {count}", f"{spec.function} must return {count} values"
        )
    for index, tensor in enumerate(spec.outputs):
        value = f"std::get<{index}>(result)" if count > 1 else "result"
        result = f"std::decay_t<decltype({value})>"
        if tensor.dtype is DataType.BYTES:
            yield f"sandseal::put_texts({index}, {value});"
            continue
        shape = ", ".join(map(str, tensor.shape))
        what, element = f"output {tensor.name!r} is {tensor.dtype} [{shape}]", _type(tensor, 0)
        axes = f"{what} in plugin.toml, but {spec.function} returns another number of axes"
        casts = f"{what} in plugin.toml, but {spec.function} returns another kind of numbers: use .astype"
        yield _must(f"sandseal::rank<{result}>() == {len(tensor.shape)}", axes)
        yield _must(f"sandseal::casts<{result}, {element}>()", casts)
        yield f"sandseal::put<{element}>({index}, {value});"


def _must(fact: str, otherwise: str) -> str:
    return f"static_assert({fact}, {json.dumps(otherwise)});"


def _type(tensor: TensorSpec, column: int) -> str:
    if tensor.dtype not in _TYPES:
        raise BuildError(
            f"tensor {tensor.name!r} is {tensor.dtype}, which Python plugins cannot hold",
            hint="take FP32 here, or write the plugin in C",
            tensor=tensor.name,
        )
    return _TYPES[tensor.dtype][column]
