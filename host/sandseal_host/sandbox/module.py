"""What a wasm binary imports, exports and starts, read from its bytes before wasmtime compiles them.

Read by us because wasmtime compiles text too, and because its C API aborts the whole process when asked for a
signature that has a v128 in it (wasmtime 50). The binary format: WebAssembly Core Specification 2.0, chapter 5.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sandseal_host.errors import PluginInvalid

MAGIC = b"\0asm\x01\0\0\0"
MAX_BYTES = 64 << 20
PAGE = 65_536
_MAX_ITEMS = 100_000  # in one section

_TYPE, _IMPORT, _FUNCTION, _MEMORY, _EXPORT, _START = 1, 2, 3, 5, 7, 8
_KINDS = ("function", "table", "memory", "global", "tag")
_VALUES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64", 0x7B: "v128", 0x70: "funcref", 0x6F: "externref"}


@dataclass(frozen=True, slots=True)
class ModuleOutline:
    """A module's surface. Functions are written as their signature, `(i32 i32) -> (i32)`, the rest as its kind.

    Args:
        imports: by (module, name).
        exports: by name.
        memory_pages: the least size of its memory, in pages of 64 KiB.
        starts: whether it has a start section.
    """

    imports: Mapping[tuple[str, str], str]
    exports: Mapping[str, str]
    memory_pages: int
    starts: bool


def read_outline(wasm: bytes, label: str) -> ModuleOutline:
    """Read a module's surface; wasmtime must still validate the same bytes.

    Args:
        wasm: the module as signed.
        label: names the plugin in errors.

    Raises:
        PluginInvalid: not a wasm binary, too large, or cut short.
    """
    if not wasm.startswith(MAGIC):
        raise PluginInvalid(
            f"plugin {label!r} is not a WebAssembly module: it does not start with '\\0asm' version 1",
            hint="give the .wasm file that `sandseal build` writes; text form and components are not accepted",
            plugin=label,
        )
    if len(wasm) > MAX_BYTES:
        raise PluginInvalid(f"plugin {label!r} has {len(wasm)} bytes, over {MAX_BYTES}", plugin=label, size=len(wasm))
    try:
        return _Parser(wasm).outline()
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise PluginInvalid(f"plugin {label!r} is malformed or cut short", plugin=label) from error


class _Parser:
    """One pass over the sections; anything it does not know ends in IndexError or KeyError."""

    def __init__(self, wasm: bytes) -> None:
        self._wasm = wasm
        self._at = len(MAGIC)
        self._types: list[str] = []
        self._functions: list[str] = []
        self._imports: dict[tuple[str, str], str] = {}
        self._exports: dict[str, str] = {}
        self._pages, self._starts = 0, False

    def outline(self) -> ModuleOutline:
        """Read to the end."""
        readers = {
            _TYPE: self._read_type, _IMPORT: self._read_import, _FUNCTION: self._read_function,
            _MEMORY: self._read_memory, _EXPORT: self._read_export,
        }  # fmt: skip
        while self._at < len(self._wasm):
            section, size = self._byte(), self._number()
            end = self._at + size
            if end > len(self._wasm):
                raise IndexError(section)
            self._starts |= section == _START
            if section in readers:
                for _ in range(self._count()):
                    readers[section]()
            self._at = end
        return ModuleOutline(self._imports, self._exports, self._pages, self._starts)

    def _read_type(self) -> None:
        if self._byte() != 0x60:
            raise KeyError("a type that is no function")
        takes = " ".join(_VALUES[self._byte()] for _ in range(self._count()))
        gives = " ".join(_VALUES[self._byte()] for _ in range(self._count()))
        self._types.append(f"({takes}) -> ({gives})")

    def _read_import(self) -> None:
        key = (self._name(), self._name())
        kind = _KINDS[self._byte()]
        if kind == "function":
            self._functions.append(self._types[self._number()])
        elif kind == "memory":
            self._read_memory()
        else:
            self._skip_type(kind)
        self._imports[key] = self._functions[-1] if kind == "function" else kind

    def _skip_type(self, kind: str) -> None:
        self._byte()
        if kind == "table":
            self._limits()
        else:
            self._number()

    def _read_function(self) -> None:
        self._functions.append(self._types[self._number()])

    def _read_memory(self) -> None:
        self._pages = self._limits()

    def _read_export(self) -> None:
        name, kind, index = self._name(), _KINDS[self._byte()], self._number()
        self._exports[name] = self._functions[index] if kind == "function" else kind

    def _limits(self) -> int:
        flags, least = self._byte(), self._number()
        if flags & 1:
            self._number()
        return least

    def _name(self) -> str:
        size = self._number()
        self._at += size
        if self._at > len(self._wasm):
            raise IndexError(size)
        return self._wasm[self._at - size : self._at].decode()

    def _count(self) -> int:
        count = self._number()
        if count > _MAX_ITEMS:
            raise IndexError(count)
        return count

    def _number(self) -> int:
        """An unsigned LEB128 number of at most 32 bits."""
        value = self._wasm[self._at]
        if value < 0x80:  # nearly all of them
            self._at += 1
            return value
        value = 0
        for shift in range(0, 35, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise IndexError(self._at)

    def _byte(self) -> int:
        self._at += 1
        return self._wasm[self._at - 1]
