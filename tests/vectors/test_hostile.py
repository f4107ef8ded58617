"""Every hostile thing gets its right verdict and reason; expected.json is the table, `make vectors` writes it again."""

from pathlib import Path

import pytest

from support.hostile_table import TABLE, read_table
from vectors.hostile import corpus
from vectors.hostile.case import outcome
from vectors.hostile.hosts import cases as host_cases

CASES = {**corpus(), **dict(host_cases())}
EXPECTED = read_table()


def test_every_case_has_its_line() -> None:
    assert CASES.keys() == EXPECTED.keys(), f"run `make vectors` and read the difference in {TABLE.name}"
    assert len(CASES) >= 80


@pytest.mark.parametrize("name", CASES)
def test_hostile(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    wanted = EXPECTED[name]
    assert outcome(CASES[name], folder) == wanted["outcome"], CASES[name].stands_for
    assert CASES[name].stands_for == wanted["stands_for"]
