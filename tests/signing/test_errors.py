import inspect
import re

import pytest

from sandseal_signing import errors
from sandseal_signing.errors import SandsealError, SigningError

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, SigningError)]


def test_the_tree_at_the_top_of_the_file_is_the_tree() -> None:
    drawn = []
    parents: list[str] = []
    for branch, name in re.findall(r"^([│ ]*(?:[├└]── )?)([A-Z]\w+)", errors.__doc__ or "", re.MULTILINE):
        depth = len(branch) // 4
        if name not in ("Every",):
            parents[depth:] = [name]
            drawn.append((name, parents[depth - 1] if depth else "Exception"))
    real = [(cls.__name__, cls.__bases__[0].__name__) for cls in [SandsealError, *CLASSES]]
    assert sorted(drawn) == sorted(real)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_says_who_must_act_and_what_to_do(cls: type[SigningError]) -> None:
    error = cls("what was wrong", name="x")
    assert (str(error), error.message, error.data) == ("what was wrong", "what was wrong", {"name": "x"})
    if cls is not SigningError:
        assert error.hint
        assert not error.hint.endswith(".")
        assert re.match(r"(The|Anything)", cls.__doc__ or "")
    assert cls("x", hint="do this").hint == "do this"


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [cls.code for cls in [SandsealError, *CLASSES]]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)
