import pytest

from sandseal_host.serving.versions import VersionPolicy

ONE, TWO, ALL, SOME = VersionPolicy(), VersionPolicy(2), VersionPolicy(None), VersionPolicy(None, frozenset({1, 3}))
NEWEST_FIRST = [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("policy", "turns", "chosen"),
    [
        (ONE, {}, [4]),
        (ONE, {2: 7, 4: 3}, [2]),  # 2 was put into service after 4
        (ONE, {4: 0}, [3]),
        (TWO, {}, [4, 3]),
        (TWO, {1: 5}, [1, 4]),
        (TWO, {1: 5, 4: 0}, [1, 3]),
        (ALL, {}, [4, 3, 2, 1]),
        (ALL, {3: 0, 1: 9}, [1, 4, 2]),
        (SOME, {}, [3, 1]),
        (SOME, {4: 9, 1: 2, 3: 1}, [1, 3]),
        (SOME, {1: 0, 3: 0}, []),
    ],
)
def test_what_should_serve(policy, turns, chosen):
    assert policy.chosen(NEWEST_FIRST, turns) == chosen


@pytest.mark.parametrize(("policy", "stay"), [(ONE, set()), (TWO, {7}), (ALL, {7, 5, 6}), (SOME, {7, 5, 6})])
def test_what_goes_on_beside_another(policy, stay):
    assert policy.beside([7, 5, 6]) == stay


def test_what_a_push_puts_into_service():
    assert [policy.takes(2) for policy in (ONE, TWO, ALL, SOME)] == [True, True, True, False]
