"""Values that a plugin's functions find in their modules, as bytes and as a C++ type that is read from them."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

_DTYPES = {
    "bool": "bool", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "float32": "float",
    "float64": "double",
}  # fmt: skip
_KINDS = "int, float, bool, str, list, tuple, dict, set and arrays of numbers"


class NoTable(Exception):
    """A value that a plugin cannot hold; says why."""


@dataclass(frozen=True, slots=True)
class Type:
    """A C++ type: a scalar, or a container of others (`array` with a shape)."""

    name: str
    of: tuple["Type", ...] = ()
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        axes = (f"std::integral_constant<long, {axis}>" if axis else "long" for axis in self.shape)
        if self.name == "ndarray":
            return f"types::ndarray<{self.of[0]}, types::pshape<{', '.join(axes)}>>"
        return f"{self.name}<{', '.join(map(str, self.of))}>" if self.of else self.name


_BOOL, _INT, _FLOAT, _TEXT = Type("bool"), Type("long"), Type("double"), Type("types::str")
_SCALARS = {bool: _BOOL, int: _INT, float: _FLOAT, str: _TEXT}


def type_of(value: Any) -> Type:
    """The type of a table.

    Raises:
        NoTable: there is none, since C++ wants all elements of a container to be of one type.
    """
    if type(value) in _SCALARS:
        return _checked(value)
    if isinstance(value, tuple) and value:
        return Type("types::make_tuple_t", tuple(map(type_of, value)))
    if isinstance(value, (list, set, frozenset)):
        name = "types::list" if isinstance(value, list) else "types::set"
        return Type(name, (_common(value, name[7:]),))
    if isinstance(value, dict):
        return Type("types::dict", (_common(value, "dict"), _common(value.values(), "dict")))
    if isinstance(value, np.ndarray) and value.dtype.name in _DTYPES and value.ndim:
        return Type("ndarray", (Type(_DTYPES[value.dtype.name]),), value.shape)
    raise NoTable(_why(value))


def write(value: Any, kind: Type, out: bytearray) -> None:
    """Append a value's bytes: numbers as they stand, text and containers after their 32-bit size, arrays aligned."""
    if kind == _TEXT:
        _write_sized(value.encode(), out)
    elif kind in (_BOOL, _INT, _FLOAT):
        out += struct.pack({_BOOL: "<?", _INT: "<q", _FLOAT: "<d"}[kind], value)
    elif kind.name == "ndarray":
        out += bytes(-len(out) % 16) + np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
    elif kind.name == "types::make_tuple_t":
        for element, its in zip(value, kind.of, strict=True):
            write(element, its, out)
    else:
        out += struct.pack("<I", len(value))
        for element in value.items() if isinstance(value, dict) else _ordered(value):
            for part, its in zip(element if isinstance(value, dict) else (element,), kind.of, strict=True):
                write(part, its, out)


def _write_sized(data: bytes, out: bytearray) -> None:
    out += struct.pack("<I", len(data)) + data


def _ordered(value: Iterable[Any]) -> Iterable[Any]:
    return sorted(value) if isinstance(value, (set, frozenset)) else value


def _checked(value: Any) -> Type:
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        raise NoTable(f"{value} does not fit into 64 bits")
    return _SCALARS[type(value)]


def _common(values: Iterable[Any], what: str) -> Type:
    types = dict.fromkeys(map(type_of, values))
    if not types:
        raise NoTable(f"an empty {what} says nothing about the type of its elements")
    return reduce(lambda one, other: _unified(one, other, what), types)


def _unified(one: Type, other: Type, what: str) -> Type:
    if one == other:
        return one
    if {one, other} == {_INT, _FLOAT}:
        return _FLOAT
    raise NoTable(f"a {what} that mixes {_python(one)} and {_python(other)}: its elements must be of one type")


def _python(kind: Type) -> str:
    plain = {_INT: "int", _FLOAT: "float", _TEXT: "str"}
    names = {"types::make_tuple_t": "tuple", "ndarray": f"array of shape {list(kind.shape)}"}
    return plain.get(kind) or names.get(kind.name, kind.name.removeprefix("types::"))


def _why(value: Any) -> str:
    if isinstance(value, bytes):
        return "bytes: use str, or np.frombuffer(..., np.uint8)"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}, rank {value.ndim}: arrays hold numbers or bool, in at least one axis"
    return f"a {type(value).__name__}: what a plugin's function takes from its module is {_KINDS}"
