"""Profiles are read whole, or refused with the place."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandseal_host.errors import SettingsInvalid
from sandseal_host.serving.recording import Arrival
from sandseal_host.tuning.profile import Profile, read_profile

GOOD: dict[str, Any] = {
    "schema": "sandseal.profile/1",
    "model": "acme.m",
    "version": 3,
    "seconds": 2.5,
    "shapes": [[[1, 4]], [[2, 4]]],
    "arrivals": [[0, "realtime", 1], [1500, "batch", 0]],
}


def write(folder: Path, **members: Any) -> Path:
    (folder / "profile.json").write_text(json.dumps(GOOD | members))
    return folder / "profile.json"


def test_a_profile(tmp_path: Path) -> None:
    arrivals = (Arrival(0.0, "realtime", ((2, 4),)), Arrival(0.0015, "batch", ((1, 4),)))
    assert read_profile(write(tmp_path)) == Profile("acme.m", 2.5, arrivals)


@pytest.mark.parametrize(
    "members",
    [
        {"schema": "sandseal.profile/2"},
        {"extra": 1},
        {"arrivals": []},
        {"arrivals": [[0, "urgent", 0]]},
        {"arrivals": [[0, "batch", 2]]},
        {"arrivals": [[-1, "batch", 0]]},
        {"arrivals": [[0, "batch"]]},
        {"arrivals": [0]},
        {"arrivals": {}},
        {"shapes": [[[1, -4]]]},
        {"shapes": [[1]]},
        {"shapes": [[[True]]]},
        {"shapes": 1},
        {"seconds": "1"},
    ],
    ids=str,
)
def test_what_is_none(tmp_path: Path, members: dict[str, Any]) -> None:
    with pytest.raises(SettingsInvalid):
        read_profile(write(tmp_path, **members))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_bytes(b"{")
    for path in (tmp_path / "profile.json", tmp_path / "none.json"):
        with pytest.raises(SettingsInvalid, match="cannot read the profile"):
            read_profile(path)
