"""A host beside what a real Triton answered: nothing differs but what is listed, and everything listed does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.triton_differences import DIFFERENCES, PAGE, with_differences
from support.triton_record import Answer, asked, recorded, recorded_host

_HEADERS = ("content-type", "content-encoding", "inference-header-content-length", "accept-encoding")
_LISTED = {number: difference for difference in DIFFERENCES for number in difference.numbers}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, tuple[Answer, Answer]]]:
    theirs = recorded()
    folder: Path = tmp_path_factory.mktemp("recorded")
    with recorded_host(folder) as host:
        yield {number: (theirs[number], answer) for number, answer in enumerate(asked(host), 1)}


def same(there: Answer, here: Answer) -> bool:
    """Whether a client cannot tell them apart, but for the words of an error."""
    if there.status != here.status:
        return False
    if there.status >= 400:
        return there.text == here.text == "" or "error" in here.document
    # As text, in which NaN is NaN and the order of members counts.
    if (repr(there.document), there.tail) != (repr(here.document), here.tail):
        return False
    return [there.headers.get(name) for name in _HEADERS] == [here.headers.get(name) for name in _HEADERS]


@pytest.mark.slow
def test_nothing_differs_but_what_is_listed(pairs):
    assert len(pairs) == 203
    strange = {
        number: (there.title, there.status, here.status, here.text[:200])
        for number, (there, here) in pairs.items()
        if not same(there, here) and number not in _LISTED
    }
    assert strange == {}


@pytest.mark.slow
def test_everything_listed_differs_as_it_says(pairs):
    alike = [number for number in _LISTED if same(*pairs[number])]
    assert alike == []
    other = {n: pairs[n][1].status for n, listed in _LISTED.items() if pairs[n][1].status != listed.status}
    assert other == {}


def test_each_is_listed_once():
    assert len(_LISTED) == sum(len(difference.numbers) for difference in DIFFERENCES)


def test_the_page_is_current():
    text = PAGE.read_text(encoding="utf-8")
    assert with_differences(text) == text, "run `make vectors`"
