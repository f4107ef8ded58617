"""`sandseal trust new`: a policy for a bundle folder that an export or an import wrote."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sandseal_sdk.cli import build_app
from sandseal_sdk.errors import FileExists, ModelUnreadable
from sandseal_sdk.publish import write_bundle
from support.onnx_models import mlp


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a bundle folder `net`, and the key pair `me`."""
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(mlp((4, 2)).data)
    write_bundle(Path("net.onnx"), Path("net"), name="acme.net")
    assert invoke("keygen", "me").exit_code == 0
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), arguments)


def test_what_is_packed_with_that_key_is_accepted(folder: Path) -> None:
    assert invoke("trust", "new", "trust.toml", "--bundle", "net", "--key", "me.pub", "--holder", "acme").exit_code == 0
    assert invoke("pack", "net", "--key", "me.key").exit_code == 0
    done = invoke("verify", "acme.net-1.seal", "--trust", "trust.toml")
    assert done.exit_code == 0
    assert "(acme)" in done.stdout


def test_nothing_is_overwritten_and_a_folder_needs_its_manifest(folder: Path) -> None:
    (folder / "trust.toml").write_text("mine")
    assert isinstance(invoke("trust", "new", "trust.toml", "--bundle", "net", "--key", "me.pub").exception, FileExists)
    (folder / "empty").mkdir()
    done = invoke("trust", "new", "new.toml", "--bundle", "empty", "--key", "me.pub")
    assert isinstance(done.exception, ModelUnreadable)
    assert not (folder / "new.toml").exists()
