"""What a GGUF file says at its front: facts by key, and where each tensor lies; read strictly, whatever the bytes are.

The `gguf` package has a reader, too, but one that believes every count and length that it reads: a damaged file keeps
it busy for ever. The format: github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported

_MAGIC, _VERSIONS = b"GGUF", (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: struct.Struct("<B"), 1: struct.Struct("<b"), 2: struct.Struct("<H"), 3: struct.Struct("<h"),
    4: struct.Struct("<I"), 5: struct.Struct("<i"), 6: struct.Struct("<f"), 7: struct.Struct("<?"),
    10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d"),
}  # fmt: skip
_U32, _U64 = _SCALARS[4], _SCALARS[10]
_MAX_AXES = 4
_DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor lies in its file.

    Args:
        shape: rows first, as NumPy has it.
        row_bytes: that a row of the last axis takes.
        start, size: in bytes.
    """

    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    row_bytes: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """A file's facts, and its tensors by name."""

    facts: Mapping[str, Any]
    tensors: Mapping[str, TensorPlace]


def read_header(content: mmap.mmap | bytes, path: Path) -> GgufHeader:
    """Read all but the weights.

    Args:
        content: the whole file.
        path: for errors.

    Raises:
        ModelUnreadable: not GGUF, or damaged.
        ModelUnsupported: of another version or byte order, or with tensors of a kind that nobody here knows.
    """
    try:
        return _Reader(content).header()
    except (struct.error, UnicodeDecodeError, _Damaged) as error:
        raise ModelUnreadable(
            f"{path} cannot be read as GGUF: {error}", hint="is the file complete? download or convert it again"
        ) from None


class _Damaged(Exception):
    """A length, count or kind that cannot be."""


class _Reader:
    """Reads forward; every length is compared with what is left before anything is made of it."""

    def __init__(self, content: mmap.mmap | bytes) -> None:
        self._content, self._at = content, 0

    def header(self) -> GgufHeader:
        if self._bytes(len(_MAGIC)) != _MAGIC:
            raise _Damaged("it does not begin with 'GGUF'")
        version = self._scalar(_U32)
        if version not in _VERSIONS:
            raise ModelUnsupported(f"GGUF version {version} (or of the other byte order) cannot be read, only 2 and 3")
        tensors, facts = self._count(24), self._count(13)
        known = self._facts(facts)
        places = [self._tensor_info() for _ in range(tensors)]
        alignment = known.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise _Damaged(f"alignment {alignment!r}")
        start = self._at + -self._at % alignment
        found = {name: self._place(name, kind, shape, start + offset) for name, kind, shape, offset in places}
        if len(found) < len(places):
            raise _Damaged("a tensor stands twice")
        return GgufHeader(known, found)

    def _facts(self, count: int) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        for _ in range(count):
            key = self._text()
            if key in facts:
                raise _Damaged(f"the key {key[:80]!r} stands twice")
            facts[key] = self._value(self._scalar(_U32))
        return facts

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array(self._scalar(_U32))
        if kind not in _SCALARS:
            raise _Damaged(f"a value of the unknown kind {kind}")
        return self._scalar(_SCALARS[kind])

    def _array(self, kind: int) -> list[Any]:
        if kind == _STRING:
            return [self._text() for _ in range(self._count(8))]
        if kind not in _SCALARS:
            raise _Damaged(f"an array of the kind {kind}")
        scalar = _SCALARS[kind]
        return [value for (value,) in scalar.iter_unpack(self._bytes(self._count(scalar.size) * scalar.size))]

    def _tensor_info(self) -> tuple[str, int, tuple[int, ...], int]:
        name, axes = self._text(), self._scalar(_U32)
        if not 1 <= axes <= _MAX_AXES:
            raise _Damaged(f"tensor {name[:80]!r} has {axes} axes")
        shape = tuple(self._scalar(_U64) for _ in range(axes))
        return name, self._scalar(_U32), shape[::-1], self._scalar(_U64)

    def _place(self, name: str, kind: int, shape: tuple[int, ...], start: int) -> TensorPlace:
        try:
            quantisation = GGMLQuantizationType(kind)
        except ValueError:
            raise ModelUnsupported(f"tensor {name[:80]!r} is of kind {kind}, which is not known here") from None
        block, block_bytes = GGML_QUANT_SIZES[quantisation]
        row_bytes, rest = divmod(shape[-1] * block_bytes, block)
        size = row_bytes * prod(shape[:-1])
        if rest or shape[-1] % block or not 0 < size <= len(self._content) - start:
            raise _Damaged(f"tensor {name[:80]!r} of shape {list(shape)} does not fit into the file")
        return TensorPlace(quantisation, shape, row_bytes, start, size)

    def _count(self, least: int) -> int:
        """How many things come next, each of which takes `least` bytes."""
        count: int = self._scalar(_U64)
        if count > (len(self._content) - self._at) // least:
            raise _Damaged(f"a count of {count} goes beyond its end")
        return count

    def _text(self) -> str:
        return self._bytes(self._count(1)).decode("utf-8")

    def _scalar(self, scalar: struct.Struct) -> Any:
        (value,) = scalar.unpack(self._bytes(scalar.size))
        return value

    def _bytes(self, size: int) -> bytes:
        if size > len(self._content) - self._at:
            raise _Damaged("it ends too early")
        start, self._at = self._at, self._at + size
        return self._content[start : self._at]
