"""Initialisation at build time: `_initialize` runs once, and what it leaves in memory and globals becomes the module.

A fresh instance then starts with its tables in place, mapped by wasmtime as one image, and pays only for pages that it
touches. The same module always becomes the same bytes.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin.wasm_module import (
    CONSTANTS,
    Export,
    Id,
    Kind,
    Reader,
    Section,
    constant,
    number,
    read_exports,
    read_imports,
    read_sections,
    write_module,
)

INITIALIZE, MEMORY = "_initialize", "memory"
_PAGE = 65_536
PAGES_PER_MIB = (1 << 20) // _PAGE
_MUTABLE = 1
_ACTIVE, _PASSIVE, _ACTIVE_IN = 0, 1, 2  # kinds of data segments
_I32 = 0x7F
_EMPTY = bytes([_PASSIVE, 0])  # what a segment is once it has been copied
MAX_BYTES = 64 << 20  # of a module that a host takes
# Zeros in a row that end a segment: the first when that gives no more segments than an engine takes (100,000).
_GAPS, _MOST_SEGMENTS = (re.compile(rb"\0{64,}"), re.compile(rb"\0{4096,}")), 20_000


class State(Protocol):
    """What initialisation left: all of memory, and the values of exported globals by name."""

    @property
    def memory(self) -> bytes:
        """Linear memory."""
        ...

    @property
    def globals(self) -> Mapping[str, int | float]:
        """Values by name."""
        ...


@dataclass(frozen=True, slots=True)
class _Global:
    """A global that the module defines: its index among all, its value type, whether it can change, its entry."""

    index: int
    kind: int
    mutable: bool
    entry: bytes

    @property
    def name(self) -> str:
        return f"global{self.index}"


def preinitialise(wasm: bytes, run: Callable[[bytes], State], limit_pages: int) -> bytes:
    """Run a module's `_initialize` and return the module as that leaves it; without one, the module itself.

    Args:
        wasm: as the compiler wrote it.
        run: instantiates a module, runs its `_initialize`, and gives back memory and exported globals.
        limit_pages: the most pages of 64 KiB that the module may have.

    Raises:
        BuildError: a global that changes has a type that cannot be written down, or the module becomes too large.
    """
    sections = read_sections(wasm)
    if not any(export.name == INITIALIZE for export in read_exports(sections)):
        return wasm
    baked = _with_state(sections, run(_watched(sections)), limit_pages)
    if len(baked) > MAX_BYTES:
        raise BuildError(
            f"initialisation leaves {len(baked) >> 20} MiB in memory; a module may have {MAX_BYTES >> 20}",
            hint="make smaller tables, or read them from an asset in the stage function",
            size=len(baked),
        )
    return baked


def _watched(sections: Sequence[Section]) -> bytes:
    """The module with what `run` has to see as its only exports."""
    exports = [export for export in read_exports(sections) if export.name in (INITIALIZE, MEMORY)]
    exports += [Export(each.name, Kind.GLOBAL, each.index) for each in _changing(sections)]
    exports += [Export(f"table{i}", Kind.TABLE, i) for i in range(_tables(sections))]
    return write_module(_replaced(sections, {Id.EXPORT: _exports(exports)}))


def _with_state(sections: Sequence[Section], state: State, limit_pages: int) -> bytes:
    """The module that starts in this state."""
    segments = [*_kept(sections), *_segments(state.memory)]
    contents: dict[int, bytes] = {
        Id.MEMORY: _memory(sections, state.memory, limit_pages),
        Id.GLOBAL: _initialised(_globals(sections), state),
        Id.EXPORT: _exports([export for export in read_exports(sections) if export.name != INITIALIZE]),
        Id.DATA_COUNT: number(len(segments)),
        Id.DATA: number(len(segments)) + b"".join(segments),
    }
    if not any(section.id == Id.DATA for section in sections):
        sections = [*sections, Section(Id.DATA, b"\0")]
    return write_module(_replaced(sections, contents))


def _replaced(sections: Sequence[Section], contents: Mapping[int, bytes]) -> Iterator[Section]:
    """The sections, with other contents where they are given."""
    return (Section(section.id, contents.get(section.id, section.content)) for section in sections)


def _exports(exports: Sequence[Export]) -> bytes:
    return number(len(exports)) + b"".join(export.render() for export in exports)


def _tables(sections: Sequence[Section]) -> int:
    """How many tables there are, imported ones included."""
    defined = sum(section.items().count for section in sections if section.id == Id.TABLE)
    return defined + sum(kind == Kind.TABLE for _, kind in read_imports(sections))


def _globals(sections: Sequence[Section]) -> Sequence[_Global]:
    first = sum(kind == Kind.GLOBAL for _, kind in read_imports(sections))
    return [
        _read_global(reader, first + i)
        for section in sections
        if section.id == Id.GLOBAL
        for reader in [section.items()]
        for i in range(reader.count)
    ]


def _changing(sections: Sequence[Section]) -> Iterator[_Global]:
    """The globals that initialisation can change."""
    for each in _globals(sections):
        if each.mutable and each.kind not in CONSTANTS:
            raise BuildError(
                f"initialisation can change global {each.index}, which is no number and cannot be baked in",
                hint="keep vectors and references that change in memory, not in globals",
                index=each.index,
            )
        if each.mutable:
            yield each


def _read_global(reader: Reader, index: int) -> _Global:
    start = reader.at
    kind, mutable = reader.byte(), reader.byte() == _MUTABLE
    reader.expression()
    return _Global(index, kind, mutable, reader.since(start))


def _initialised(found: Sequence[_Global], state: State) -> bytes:
    return number(len(found)) + b"".join(_entry(each, state) for each in found)


def _entry(each: _Global, state: State) -> bytes:
    if not each.mutable:
        return each.entry
    return bytes([each.kind, _MUTABLE]) + constant(each.kind, state.globals[each.name])


def _memory(sections: Sequence[Section], memory: bytes, limit_pages: int) -> bytes:
    """The memory section: as much room as before beyond what initialisation took, since growing is dear."""
    (section,) = (section for section in sections if section.id == Id.MEMORY)
    least, most = section.items().limits()
    used = len(memory.rstrip(b"\0")) - _end_of_data(sections)
    pages = max(len(memory) // _PAGE, least + -(-max(0, used) // _PAGE))
    pages = max(len(memory) // _PAGE, min(pages, limit_pages, pages if most is None else most))
    flags = b"\1\0" if most is None else b"\1\1"
    return flags + number(pages) + (b"" if most is None else number(most))


def _data(sections: Sequence[Section]) -> Iterator[tuple[int, bytes, bytes]]:
    """Kind, offset expression and bytes of each data segment."""
    for reader in [section.items() for section in sections if section.id == Id.DATA]:
        for _ in range(reader.count):
            kind = reader.number()
            if kind == _ACTIVE_IN:
                reader.number()
            offset = reader.expression() if kind != _PASSIVE else b""
            yield kind, offset, reader.take(reader.number())


def _end_of_data(sections: Sequence[Section]) -> int:
    """Where the compiler's own data ends."""
    return max((Reader(offset, 1).number() + len(data) for kind, offset, data in _data(sections) if offset), default=0)


def _kept(sections: Sequence[Section]) -> Sequence[bytes]:
    """Segments that code may still name by number: passive ones stay, and copied ones keep their place, empty."""
    found = list(_data(sections))
    if all(kind != _PASSIVE for kind, _, _ in found):
        return []
    return [bytes([kind]) + number(len(data)) + data if kind == _PASSIVE else _EMPTY for kind, _, data in found]


def _segments(memory: bytes) -> Sequence[bytes]:
    """Memory as data segments, without its longer runs of zeros."""
    fine, coarse = _GAPS
    segments = list(islice(_cut(memory, fine), _MOST_SEGMENTS))
    return segments if len(segments) < _MOST_SEGMENTS else list(_cut(memory, coarse))


def _cut(memory: bytes, zeros: "re.Pattern[bytes]") -> Iterator[bytes]:
    start = 0
    for gap in [*zeros.finditer(memory), None]:
        end = gap.start() if gap else len(memory)
        if end > start:
            yield bytes([_ACTIVE]) + constant(_I32, start) + number(end - start) + memory[start:end]
        start = gap.end() if gap else end
