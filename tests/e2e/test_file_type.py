"""The demo's model through a host, against the `magika` package's own answers."""

import subprocess
import sys
from pathlib import Path

import magika
import pytest

from sandseal_sdk.build import build_plugin
from sandseal_sdk.client import Client
from sandseal_sdk.errors import HostRefused
from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_sdk.publish import write_bundle, write_trust
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder
from support.hosts import running_host
from support.kinds import ROOT, write_kinds

pytestmark = pytest.mark.slow

NAME = "demo.file-type"
MODEL = Path(magika.__file__).parent / "models" / "standard_v3_3" / "model.onnx"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("file-type")
    labels = ROOT / "plugins" / "file-type-post" / "labels.py"
    subprocess.run([sys.executable, str(labels), str(Path(magika.__file__).parent)], check=True)
    plugins = {}
    for stage in ("pre", "post"):
        source = ROOT / "plugins" / f"file-type-{stage}"
        plugins[stage] = (read_plugin_spec(source), build_plugin(source, progress=print).wasm)
    bundle = write_bundle(MODEL, folder / "bundle", name=NAME, pre=plugins["pre"], post=plugins["post"])
    key = PrivateKey.generate()
    write_trust(folder / "trust.toml", bundle, {"me": key.public}, holder="me")
    with (folder / "model.seal").open("wb") as file:
        pack_folder(bundle, file, [key])
    with running_host(folder / "trust.toml", folder / "data") as host, host.client() as client:
        client.push(folder / "model.seal")
        yield client


def test_labels_equal_the_package_s_own(client: Client, tmp_path: Path) -> None:
    oracle = magika.Magika()
    files = write_kinds(tmp_path)
    ours = {path: client.call(NAME, path.read_bytes())["outputs"] for path in files}
    theirs = {path: oracle.identify_path(path) for path in files}
    assert {path.name: outputs["label"][0] for path, outputs in ours.items()} == {
        path.name: str(theirs[path].output.label) for path in files
    }
    for path, outputs in ours.items():
        assert outputs["score"][0] == pytest.approx(theirs[path].score, abs=2e-3), path.name
    assert len({outputs["label"][0] for outputs in ours.values()}) >= 20


def test_a_plugin_s_refusal_reaches_the_client_with_its_own_words(client: Client) -> None:
    with pytest.raises(HostRefused) as refusal:
        client.call(NAME, b"")
    assert refusal.value.status == 400
    assert refusal.value.code == "input_refused"
    assert "file-type-pre" in refusal.value.data["plugin"]  # whatever names the host's facts have, `status` among them
