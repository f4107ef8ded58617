"""Settings as operators write them: what no machine can hold is refused in words, under its own name."""

import math
from typing import get_args

import pytest

from sandseal_host.app import _offer_limits
from sandseal_host.errors import SettingsInvalid
from sandseal_host.serving.rules import ServingRules
from sandseal_host.settings import Settings, read_settings

ODD = ("nan", "inf", "-inf", "1e400", "1e308", "5e-324", "1e-310", "-1", str(2**63), str(10**30), "9" * 5000)


def kinds(annotation):
    """The types that an annotation is made of."""
    parts = [kind for part in get_args(annotation) for kind in kinds(part)]
    return parts or [annotation]


NUMBERS = [name for name, field in Settings.model_fields.items() if {int, float} & {*kinds(field.annotation)}]


def test_numbers_are_found():
    assert {"port", "max_rows", "slow_s", "traces_share", "profile_slower_s"} <= {*NUMBERS}


@pytest.mark.parametrize("name", NUMBERS)
def test_odd_numbers(name, monkeypatch):
    for odd in ODD:
        monkeypatch.setenv(f"SANDSEAL_{name.upper()}", odd)
        with pytest.raises(SettingsInvalid, match=f"setting '{name}'") as refused:
            read_settings()
        assert "Value error" not in refused.value.message


@pytest.mark.parametrize("name", NUMBERS)
def test_the_largest_numbers_fit(name):
    most = 10**9
    while True:
        try:
            settings = read_settings(**{name: most})
            break
        except SettingsInvalid:
            most //= 10
    ServingRules(settings)
    assert math.isfinite(_offer_limits(settings).life.total_seconds())
