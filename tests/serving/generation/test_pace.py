"""What the less urgent may have, as tables of seconds; a decode of one urgent row takes 10 ms alone."""

import pytest

from sandseal_host.serving.generation.pace import Pace

ALONE_S, ALL_S, TOKEN_S = 0.01, 0.03, 0.001
URGENT, ALL, CHUNK = 1, 5, 128


def paced(*, seconds: float = 0.0) -> Pace:
    """One that knows what runs take, after so long of the urgent alone."""
    pace = Pace()
    pace.prefilled(20 * TOKEN_S, 20, less_urgent=False)
    pace.decoded(ALL_S, ALL, ALL)
    pace._earned = 0.0
    for _ in range(1 + round(seconds / ALONE_S)):
        pace.decoded(ALONE_S, URGENT, URGENT)
    return pace


def test_nobody_else_takes_part_before_it_is_known_what_the_urgent_take():
    pace = Pace()
    assert pace.piece(CHUNK, URGENT) == 0
    assert not pace.joins(ALL, URGENT)


@pytest.mark.parametrize(
    ("seconds", "tokens", "piece"),
    [
        pytest.param(0.1, CHUNK, 0, id="not-earned"),
        pytest.param(0.2, CHUNK, 16, id="earned"),
        pytest.param(0.1, 5, 5, id="few-are-left"),
        pytest.param(60.0, CHUNK, 16, id="long-earned"),
    ],
)
def test_a_prompt_of_the_less_urgent_is_run_in_small_pieces(seconds, tokens, piece):
    assert paced(seconds=seconds).piece(tokens, URGENT) == piece


def test_a_piece_takes_as_long_as_a_decode_of_the_urgent():
    pace = paced()
    for _ in range(2000):
        pace.decoded(0.05, 2, 2)
    assert pace.piece(CHUNK, 2) == 50


@pytest.mark.parametrize(("seconds", "joins"), [(0.2, False), (0.3, True)])
def test_rows_of_the_less_urgent_join_when_what_they_add_is_earned(seconds, joins):
    assert paced(seconds=seconds).joins(ALL, URGENT) is joins


def test_what_was_earned_in_quiet_times_is_not_there_for_a_rush():
    pace = paced(seconds=3600)
    assert pace.piece(CHUNK, URGENT) == 16
    pace.prefilled(16 * TOKEN_S, 16, less_urgent=True)
    assert pace.piece(CHUNK, URGENT) == 0


def test_a_run_that_took_longer_than_was_thought_is_owed():
    pace = paced(seconds=0.2)
    pace.prefilled(1.0, 16, less_urgent=True)
    for _ in range(1000):
        assert pace.piece(1, URGENT) == 0
        pace.decoded(ALONE_S, URGENT, URGENT)
