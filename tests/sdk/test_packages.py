import zipfile
from pathlib import Path

import pytest

from sandseal_sdk.errors import PackageUnavailable
from sandseal_sdk.packages import unpack_package

pytestmark = pytest.mark.slow  # each starts processes


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of package files that pip takes in place of PyPI."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_wheel(folder: Path, name: str) -> None:
    head = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/weights.bin", b"weights")
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", head)
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")


def test_a_package_is_unpacked_once_and_kept(index, tmp_path):
    write_wheel(index, "held")
    folder = unpack_package("held==1.0", tmp_path / "packages")
    assert (folder / "held" / "weights.bin").read_bytes() == b"weights"
    (index / "held-1.0-py3-none-any.whl").unlink()
    assert unpack_package("held==1.0", tmp_path / "packages") == folder


def test_another_digest_is_refused_and_nothing_is_kept(index, tmp_path):
    write_wheel(index, "held")
    with pytest.raises(PackageUnavailable, match=r"pip cannot get held==1\.0"):
        unpack_package("held==1.0", tmp_path / "packages", sha256="0" * 64)
    assert list((tmp_path / "packages").iterdir()) == []


def test_a_package_that_is_not_there_says_so(index, tmp_path):
    with pytest.raises(PackageUnavailable, match=r"pip cannot get absent==1\.0") as refusal:
        unpack_package("absent==1.0", tmp_path / "packages")
    assert refusal.value.hint is not None
