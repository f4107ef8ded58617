import numpy as np
import pytest

from sandseal_sdk.decoders.turn import Turn

WIDTHS = [pytest.param(64, id="power-of-two"), 96, 576, pytest.param(15, id="odd"), 1]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_turn_is_orthogonal(width: int) -> None:
    matrix = Turn(width).rows(np.eye(width, dtype=np.float32))
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(width), atol=1e-5)


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_and_columns_are_turned_by_the_same_matrix(width: int) -> None:
    matrix = Turn(width).rows(np.eye(width, dtype=np.float32))
    some = np.random.default_rng(0).standard_normal((7, width)).astype(np.float32)
    np.testing.assert_allclose(Turn(width).rows(some), some @ matrix, atol=1e-4)
    np.testing.assert_allclose(Turn(width).columns(some.T), matrix.T @ some.T, atol=1e-4)


def test_one_large_number_becomes_many_of_like_size() -> None:
    row = np.zeros((1, 576), np.float32)
    row[0, 17] = 1000.0
    turned = Turn(576).rows(row)
    assert np.abs(turned).max() < 4.5 * np.sqrt(np.mean(turned**2))
