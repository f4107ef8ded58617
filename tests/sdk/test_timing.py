import pytest

from sandseal_sdk.errors import CaseInvalid
from sandseal_sdk.scaffold import new_plugin
from sandseal_sdk.testing.timing import time_plugin


def test_cases_that_end_well_are_timed(tmp_path):
    (case,) = time_plugin(new_plugin(tmp_path / "mine", "mine", "c", "pre"), rounds=3)
    assert case.name == "three"
    for times in (case.fresh, case.reused):
        assert 0 < times.median_us <= times.p99_us
    assert case.python is None
    assert case.fuel > 0
    assert case.memory_bytes == 1 << 20


def test_only_refusals_are_nothing_to_time(tmp_path):
    folder = new_plugin(tmp_path / "mine", "mine", "c", "pre")
    (folder / "cases" / "three.json").unlink()
    with pytest.raises(CaseInvalid, match="nothing to time"):
        list(time_plugin(folder))


@pytest.mark.slow
def test_python_plugins_are_timed_as_python_too(tmp_path):
    (case,) = time_plugin(new_plugin(tmp_path / "mine", "mine", "python", "pre"), rounds=3)
    assert case.python.median_us > 0
