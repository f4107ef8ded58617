"""The table of what is said of each hostile case: written by `make vectors`, read by the test."""

import json
import tempfile
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parents[1] / "vectors" / "expected.json"


def read_table() -> dict[str, Any]:
    """What each case stands for and what must be said of it, by name."""
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def make_table() -> str:
    """The table as the code of today answers; read the difference before it is kept."""
    from vectors.hostile import corpus
    from vectors.hostile.case import outcome
    from vectors.hostile.hosts import cases

    table = {}
    for name, case in {**corpus(), **dict(cases())}.items():
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent, "folder")
            folder.mkdir()
            table[name] = {"stands_for": case.stands_for, "outcome": outcome(case, folder)}
    return json.dumps(table, indent=1, ensure_ascii=True) + "\n"
