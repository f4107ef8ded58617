"""Modules answer the same as ONNX graphs."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from typer.testing import CliRunner  # noqa: E402

from sandseal_sdk.cli import build_app  # noqa: E402
from sandseal_sdk.errors import InputInvalid, ModelUnreadable  # noqa: E402
from sandseal_sdk.exporting.torch_source import load_module  # noqa: E402
from sandseal_signing.manifest import parse_manifest  # noqa: E402

pytestmark = pytest.mark.slow
NET = """
import torch
from sizes import WIDTH

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, WIDTH, 3, padding=1)
        self.head = torch.nn.Linear(WIDTH, 5)

    def forward(self, image, mask):
        features = self.conv(image).relu().mean((2, 3)) * mask[:, None]
        return {"logits": self.head(features), "features": features}

def net():
    torch.manual_seed(0)
    return Net()

def nothing():
    return None
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "sizes.py").write_text("WIDTH = 8\n")
    (tmp_path / "net.py").write_text(NET)
    return tmp_path / "net.py"


def test_a_module_with_free_axes_and_weights(net: Path, tmp_path: Path) -> None:
    weights = {name: tensor * 2 for name, tensor in load_module(f"{net}:net", None).state_dict().items()}
    torch.save(weights, tmp_path / "net.pt")
    inputs = ["--input", "image:FP32:batch,3,height=20,width=24", "--input", "mask:FP32:batch"]
    names = ["--output", "logits", "--output", "features"]
    weighted = ["--weights", str(tmp_path / "net.pt"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(build_app(), ["export", "torch", f"{net}:net", *inputs, *names, *weighted])
    assert result.exit_code == 0, result.output
    manifest = parse_manifest((tmp_path / "out/bundle.json").read_bytes())
    assert manifest.inputs[0].shape == ("batch", 3, "height", "width")
    assert [(tensor.name, tensor.shape) for tensor in manifest.outputs] == [
        ("logits", ("batch", 5)),
        ("features", ("batch", 8)),
    ]


def test_a_saved_program(net: Path, tmp_path: Path) -> None:
    example = (torch.zeros(2, 3, 8, 8), torch.zeros(2))
    torch.export.save(torch.export.export(load_module(f"{net}:net", None), example), tmp_path / "net.pt2")
    assert set(load_module(str(tmp_path / "net.pt2"), None)(*example)) == {"logits", "features"}


def test_what_is_no_module(net: Path, tmp_path: Path) -> None:
    for wrong, error in (
        (f"{net}:nothing", ModelUnreadable),
        (f"{net}:absent", ModelUnreadable),
        ("net", InputInvalid),
    ):
        with pytest.raises(error):
            load_module(wrong, None)
    (tmp_path / "evil.pt").write_bytes(b"\x80\x02cos\nsystem\n.")
    with pytest.raises(ModelUnreadable):
        load_module(f"{net}:net", tmp_path / "evil.pt")
