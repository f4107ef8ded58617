"""A program's tables as files for the C++ compiler, which takes the bytes as they are instead of long initialisers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandseal_sdk.toolchains.tables import Type, write

_HEADER = """\
#include <sandseal_tables.hpp>

namespace sandseal_tables
{{
namespace types = pythonic::types;

inline sandseal::TableReader reader{{sandseal_table_data}};
{definitions}}} // namespace sandseal_tables

PYTHONIC_NS_BEGIN
namespace sandseal::functor
{{
{functors}}} // namespace sandseal::functor
PYTHONIC_NS_END
"""
_FUNCTOR = """\
struct {name} {{
    using callable = void;
    auto operator()() const {{ return sandseal_tables::{name}; }}
}};
"""
_BYTES = """\
extern const unsigned char sandseal_table_data[];
alignas(16) const unsigned char sandseal_table_data[] = {
#embed "tables.bin" if_empty(0)
};
"""


def write_tables(tables: Mapping[str, tuple[Any, Type]], folder: Path) -> None:
    """Write tables.hpp, which reads the tables while a module initialises, tables.bin and tables.cpp around it.

    Args:
        tables: values and types by name.
        folder: where to.
    """
    data, definitions, functors = bytearray(), [], []
    for name, (value, kind) in tables.items():
        write(value, kind, data)
        definitions.append(f"inline const auto {name} = reader.read<{kind}>();\n")
        functors.append(_FUNCTOR.format(name=name))
    header = _HEADER.format(definitions="".join(definitions), functors="".join(functors))
    (folder / "tables.hpp").write_text(header, encoding="utf-8", newline="\n")
    (folder / "tables.bin").write_bytes(data)
    (folder / "tables.cpp").write_text(_BYTES, encoding="utf-8", newline="\n")
