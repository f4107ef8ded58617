"""sdk/abi/abi-v1.md is normative; what the code has in tables must be what it says."""

import re
from pathlib import Path

import pytest

from sandseal_host.sandbox.abi import CALL, MAX_ELEMENTS, TENSOR
from sandseal_host.sandbox.config import MAX_STACK, MAX_TABLE_ELEMENTS, MAX_TABLES
from sandseal_host.sandbox.imports import FUNCTIONS, MAX_RANDOM
from sandseal_host.sandbox.instance import MAX_REFUSAL
from sandseal_host.sandbox.log import BURST, MAX_LINE, PER_SECOND
from sandseal_host.tensors import KINDS
from sandseal_signing.stage import Limits

TEXT = (Path(__file__).parents[2] / "sdk/abi/abi-v1.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|")]
WIDTH = {"u32": 4, "u64": 8, "i64[8]": 64, "u32[5]": 20}


def signature(text: str) -> str:
    """`(level: i32, len: i32) -> i64` as the code writes it, `(i32 i32) -> (i64)`."""
    takes, gives = (re.findall(r"\bi(?:32|64)\b", side) for side in text.split("->"))
    return f"({' '.join(takes)}) -> ({' '.join(gives)})"


def test_imports() -> None:
    written = {name: signature(row[1]) for row in ROWS if "->" in row[1] for name in re.findall(r"`([a-z_]+)`", row[0])}
    assert {name: written.get(name) for _, name in FUNCTIONS} == {
        name: function.signature for (_, name), function in FUNCTIONS.items()
    }


def test_data_types() -> None:
    written = {row[1]: (int(row[0]), row[2]) for row in ROWS if row[0].isdigit() and row[1] in KINDS}
    assert written == {dtype: (kind.onnx, str(kind.size or "varies")) for dtype, kind in KINDS.items()}


def test_structs() -> None:
    """Fields follow each other without a gap, and fill the sizes that the headings name and the code packs."""
    sizes = []
    for row in ROWS:
        if row[0].isdigit() and row[1] in WIDTH:
            if row[0] == "0":
                sizes.append(0)
            assert int(row[0]) == sizes[-1], row
            sizes[-1] += WIDTH[row[1]]
    assert sizes == [CALL.size, TENSOR.size]
    assert re.findall(r"### `\w+`: (\d+) bytes", TEXT) == [str(size) for size in sizes]


@pytest.mark.parametrize(
    "words",
    [
        f"at most {MAX_RANDOM:,} a call",
        f"At most {MAX_LINE:,} bytes of a line are kept",
        f"of all lines of a plugin {BURST} at once and {PER_SECOND} a second",
        f"at most {MAX_REFUSAL:,} bytes of the text",
        f"most {MAX_ELEMENTS:,}.",
        f"| {MAX_STACK >> 10} KiB |",
        f"| {MAX_TABLES}, of {MAX_TABLE_ELEMENTS:,} elements each |",
        f"`limits.memory_mib` ({Limits().memory_mib} by default)",
        f"`limits.time_ms` ({Limits().time_ms:,} by default)",
    ],
)
def test_numbers(words: str) -> None:
    assert words in TEXT
