"""Triton's queue and batcher tests, each with its outcome here."""

import pytest

from support.settings_table import README
from support.triton_scenarios import SCENARIOS, Scenario, play, with_triton_table


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.test[:50])
def test_outcome(scenario: Scenario) -> None:
    played = play(scenario)
    assert played == scenario.outcome


def test_the_readme_s_table_is_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert "<!-- triton:" in text
    assert with_triton_table(text) == text, "run `make vectors`"
