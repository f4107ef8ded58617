"""A compiled module as its sections, read and written: what it imports and exports, and the module without DWARF.

Modules that a compiler has just written, so nothing is checked here; the host checks everything again
(WebAssembly Core Specification 2.0, chapter 5).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import pack

_HEADER = b"\0asm\1\0\0\0"
_I32, _I64, _F32, _F64, _V128, _END = 0x41, 0x42, 0x43, 0x44, 0xFD, 0x0B
_IMMEDIATE_NUMBER = {_I32, _I64, 0x23, 0xD2}  # i32.const, i64.const, global.get, ref.func
_IMMEDIATE_BYTES = {_F32: 4, _F64: 8, _V128: 17, 0xD0: 1}  # f32.const, f64.const, v128.const, ref.null

# Value types that `constant` can write, and the opcode for each.
CONSTANTS = {0x7F: _I32, 0x7E: _I64, 0x7D: _F32, 0x7C: _F64}


class Id(IntEnum):
    """Kinds of sections, in the order in which modules hold them; custom ones stand anywhere."""

    CUSTOM = 0
    TYPE = 1
    IMPORT = 2
    FUNCTION = 3
    TABLE = 4
    MEMORY = 5
    GLOBAL = 6
    EXPORT = 7
    START = 8
    ELEMENT = 9
    DATA_COUNT = 12
    CODE = 10
    DATA = 11


class Kind(IntEnum):
    """What can be imported and exported."""

    FUNCTION = 0
    TABLE = 1
    MEMORY = 2
    GLOBAL = 3


@dataclass(frozen=True, slots=True)
class WasmSurface:
    """A module's border.

    Args:
        imports: as `module.name`, in the module's order.
        exports: by name.
        starts: whether it has a start section.
    """

    imports: tuple[str, ...]
    exports: tuple[str, ...]
    starts: bool


@dataclass(frozen=True, slots=True)
class Export:
    """One export: its name, and which item of its kind it is."""

    name: str
    kind: int
    index: int

    def render(self) -> bytes:
        """As an entry of the export section."""
        name = self.name.encode()
        return number(len(name)) + name + bytes([self.kind]) + number(self.index)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a module."""

    id: int
    content: bytes

    def items(self) -> "Reader":
        """A reader behind the count that most sections begin with, which it has in `count`."""
        reader = Reader(self.content)
        reader.count = reader.number()
        return reader


def read_sections(wasm: bytes) -> Sequence[Section]:
    """A module's sections, in order."""
    reader, found = Reader(wasm, len(_HEADER)), []
    while reader.at < len(wasm):
        section, size = reader.byte(), reader.number()
        found.append(Section(section, reader.take(size)))
    return found


def write_module(sections: Iterable[Section]) -> bytes:
    """The module that holds these sections."""
    return _HEADER + b"".join(bytes([each.id]) + number(len(each.content)) + each.content for each in sections)


def read_surface(wasm: bytes) -> WasmSurface:
    """Read what a module shows of itself."""
    sections = read_sections(wasm)
    imports = [name for name, _ in read_imports(sections)]
    exports = [export.name for export in read_exports(sections)]
    return WasmSurface(tuple(imports), tuple(exports), any(section.id == Id.START for section in sections))


def read_imports(sections: Iterable[Section]) -> Sequence[tuple[str, int]]:
    """Name and kind of each import."""
    readers = [section.items() for section in sections if section.id == Id.IMPORT]
    return [reader.imported() for reader in readers for _ in range(reader.count)]


def read_exports(sections: Iterable[Section]) -> Sequence[Export]:
    """Each export."""
    readers = [section.items() for section in sections if section.id == Id.EXPORT]
    return [Export(reader.text(), reader.byte(), reader.number()) for reader in readers for _ in range(reader.count)]


def strip_debug(wasm: bytes) -> bytes:
    """The module without DWARF, which holds paths of the machine that built it; function names stay, for traces."""
    return write_module(section for section in read_sections(wasm) if not _is_debug(section))


def _is_debug(section: Section) -> bool:
    return section.id == Id.CUSTOM and Reader(section.content).text().startswith(".debug")


def number(value: int) -> bytes:
    """An unsigned LEB128 number."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def signed(value: int) -> bytes:
    """A signed LEB128 number."""
    parts = bytearray()
    while not -0x40 <= value < 0x40:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value & 0x7F])


class Reader:
    """Takes values off a module or a section from `at` on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at
        self.count = 0

    def byte(self) -> int:
        """One byte."""
        self.at += 1
        return self._data[self.at - 1]

    def number(self) -> int:
        """A LEB128 number, taken as unsigned."""
        value = shift = 0
        while (byte := self.byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def take(self, size: int) -> bytes:
        """So many bytes."""
        self.at += size
        return self._data[self.at - size : self.at]

    def text(self) -> str:
        """A name."""
        return self.take(self.number()).decode()

    def since(self, at: int) -> bytes:
        """What was read since `at`."""
        return self._data[at : self.at]

    def imported(self) -> tuple[str, int]:
        """An import's name and kind."""
        name, kind = f"{self.text()}.{self.text()}", self.byte()
        if kind == Kind.FUNCTION:
            self.number()
        elif kind == Kind.GLOBAL:
            self.take(2)
        else:
            self.take(1 if kind == Kind.TABLE else 0)
            self.limits()
        return name, kind

    def limits(self) -> tuple[int, int | None]:
        """The least and the most size of a memory or table."""
        limited = self.byte() & 1
        return self.number(), self.number() if limited else None

    def expression(self) -> bytes:
        """A constant expression, with its end."""
        start = self.at
        while (opcode := self.byte()) != _END:
            if opcode in _IMMEDIATE_BYTES:
                self.take(_IMMEDIATE_BYTES[opcode])
            elif opcode in _IMMEDIATE_NUMBER:
                self.number()
        return self.since(start)


def constant(kind: int, value: float) -> bytes:
    """The expression for a value of one of the types in `CONSTANTS`."""
    opcode = CONSTANTS[kind]
    if opcode in (_I32, _I64):
        half = 1 << (31 if opcode == _I32 else 63)
        return bytes([opcode]) + signed((int(value) + half) % (2 * half) - half) + bytes([_END])
    return bytes([opcode]) + pack("<f" if opcode == _F32 else "<d", value) + bytes([_END])
