"""What a compiled module imports and exports, and the module without its debug sections."""

from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = 8  # magic and version
_CUSTOM, _IMPORT, _EXPORT = 0, 2, 7
_IMPORTED_FUNCTION, _IMPORTED_TABLE, _IMPORTED_MEMORY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class WasmSurface:
    """A module's border.

    Args:
        imports: as `module.name`, in the module's order.
        exports: by name.
    """

    imports: tuple[str, ...]
    exports: tuple[str, ...]


def read_surface(wasm: bytes) -> WasmSurface:
    """Read the imports and exports of a module that a compiler has just written."""
    imports: list[str] = []
    exports: list[str] = []
    for section, start, _ in _sections(wasm):
        reader = _Reader(wasm, start)
        if section == _IMPORT:
            imports = [reader.imported() for _ in range(reader.number())]
        elif section == _EXPORT:
            exports = [reader.exported() for _ in range(reader.number())]
    return WasmSurface(tuple(imports), tuple(exports))


def strip_debug(wasm: bytes) -> bytes:
    """The module without DWARF, which holds paths of the machine that built it; function names stay, for traces."""
    kept = bytearray(wasm[:_HEADER])
    at = _HEADER
    for section, start, end in _sections(wasm):
        if section != _CUSTOM or not _Reader(wasm, start).text().startswith(".debug"):
            kept += wasm[at:end]
        at = end
    return bytes(kept)


def _sections(wasm: bytes) -> Iterator[tuple[int, int, int]]:
    """(id, start of the content, end) of each section."""
    reader = _Reader(wasm, _HEADER)
    while reader.at < len(wasm):
        section = reader.byte()
        size = reader.number()
        start = reader.at
        reader.at = start + size
        yield section, start, reader.at


class _Reader:
    """Takes values off a module from `at` on (WebAssembly Core Specification 2.0, chapter 5)."""

    def __init__(self, wasm: bytes, at: int) -> None:
        self._wasm = wasm
        self.at = at

    def byte(self) -> int:
        self.at += 1
        return self._wasm[self.at - 1]

    def number(self) -> int:
        value = shift = 0
        while (byte := self.byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def text(self) -> str:
        size = self.number()
        self.at += size
        return self._wasm[self.at - size : self.at].decode()

    def imported(self) -> str:
        name = f"{self.text()}.{self.text()}"
        kind = self.byte()
        if kind == _IMPORTED_FUNCTION:
            self.number()
        elif kind in (_IMPORTED_TABLE, _IMPORTED_MEMORY):
            self.at += kind == _IMPORTED_TABLE
            limited = self.byte() & 1
            self.number()
            if limited:
                self.number()
        else:
            self.at += 2
        return name

    def exported(self) -> str:
        name = self.text()
        self.byte()
        self.number()
        return name
