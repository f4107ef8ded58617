"""Both ways with the stock model-signing tool: it verifies what we co-sign, and we import what it signs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandseal_sdk.cli import build_app
from sandseal_signing.keys import PrivateKey
from support.onnx_models import mlp
from support.stock_oms import NotInstallable, StockTool

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> StockTool:
    try:
        return StockTool(tmp_path_factory.mktemp("stock"))
    except NotInstallable as error:
        pytest.skip(f"the stock tool cannot be installed: {error}")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes(mlp().data)
    return tmp_path


def sandseal(*arguments: str) -> str:
    done = CliRunner().invoke(build_app(), arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def key_pair(folder: Path) -> tuple[Path, Path]:
    key = PrivateKey.generate("ecdsa-p256")
    private, public = folder / "p256.pem", folder / "p256.pub"
    private.write_bytes(key.pem())
    public.write_text(key.public.pem)
    return private, public


def test_the_stock_tool_verifies_a_co_signed_bundle(here: Path, stock: StockTool) -> None:
    private, public = key_pair(here)
    hint = PrivateKey.parse(private.read_bytes()).public.hint
    sandseal("init", "net.onnx", "--name", "acme.net")
    sandseal("pack", "acme.net/bundle", "--key", "acme.net/publisher.key", "-o", "net.seal")
    sandseal("sign", "net.seal", "--oms-key", "p256.pem")
    sandseal("unpack", "net.seal", "net")
    arguments = ("verify", "key", "net", "--signature", f"net/signatures/{hint[:16]}.sig", "--public_key", public)
    done = stock(*arguments)
    assert done.returncode == 0, done.stderr
    assert "Verification succeeded" in done.stdout + done.stderr
    sandseal("verify", "net", "--trust", "acme.net/trust.toml")

    model = here / "net" / "model.onnx"
    model.write_bytes(model.read_bytes().replace(b"w0", b"w9"))
    assert stock(*arguments).returncode != 0


def test_what_the_stock_tool_signs_becomes_a_bundle(here: Path, stock: StockTool) -> None:
    private, public = key_pair(here)
    model = here / "theirs"
    (model / "docs").mkdir(parents=True)
    (model / "net.onnx").write_bytes((here / "net.onnx").read_bytes())
    (model / "docs" / "card.md").write_text("# A model\n")
    done = stock("sign", "key", model, "--signature", model / "model.sig", "--private_key", private)
    assert done.returncode == 0, done.stderr

    sandseal("import", "oms", "theirs", "--key", str(public), "-o", "ours", "--name", "acme.theirs")
    sandseal("keygen", "mine")
    sandseal("pack", "ours", "--key", "mine.key", "-o", "ours.seal")
    shown = sandseal("show", "ours.seal")
    assert "acme.theirs version 1" in shown
    assert "docs/card.md" in shown
