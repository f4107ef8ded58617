"""A pipeline's TOML file made into a bundle folder."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sandseal_sdk.cli import build_app
from sandseal_sdk.errors import FileExists, PipelineFileInvalid
from sandseal_sdk.pipeline_file import write_pipeline
from sandseal_sdk.publish import read_manifest, write_bundle
from sandseal_signing.errors import ManifestInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder
from support.living_host import adding

PLUGIN = """
#include <sandseal.h>
SANDSEAL_STAGE(stage) {
    const struct sandseal_tensor *x = sandseal_input(call, 0);
    sandseal_give(sandseal_output(call, 0), x->shape, sandseal_data(x), x->byte_len);
    return SANDSEAL_DONE;
}
"""
FILE = """
schema = "sandseal.pipeline/1"
raw = ["application/octet-stream"]
[[inputs]]
name = "rows"
dtype = "FP32"
shape = ["n", 2]
[[steps]]
name = "same"
plugin = "same"
from = {x = "input.rows"}
config = {k = 2}
[[steps]]
name = "add"
model = "one.seal"
from = {x = "same.y"}
pin = true
[[outputs]]
name = "sum"
shape = ["n", 2]
from = "add.y"
[[outputs]]
name = "kept"
from = "same.y"
"""


@pytest.fixture
def folder(tmp_path: Path, make_plugin: Any) -> Path:
    """Holds a model's bundle folder, its .seal file, a plugin, and the pipeline's file."""
    shape = ["batch", 2]
    plugin = make_plugin(
        "c", PLUGIN, [("x", "FP32", shape)], [("y", "FP32", shape)], name="same", rest="[config]\nk = 1\nl = 3"
    )
    text = (plugin / "plugin.toml").read_text().replace('stage = "pre"', 'stage = "step"')
    config = "[config]\nk = 1\nl = 3"
    (plugin / "plugin.toml").write_text(text.replace(config, "") + "\n" + config)
    (tmp_path / "one.onnx").write_bytes(adding(1).data)
    bundle = write_bundle(tmp_path / "one.onnx", tmp_path / "one", name="acme.one")
    with (tmp_path / "one.seal").open("wb") as file:
        pack_folder(bundle, file, [PrivateKey.generate()])
    (tmp_path / "chain.toml").write_text(FILE)
    return tmp_path


def written(folder: Path, change: tuple[str, str] = ("", "")) -> Path:
    text = (folder / "chain.toml").read_text()
    assert change[0] in text
    (folder / "chain.toml").write_text(text.replace(*change) if change[0] else text)
    return write_pipeline(
        folder / "chain.toml", folder / "out", name="acme.chain", version=3, metadata={"licence": "MIT"}
    )


@pytest.mark.slow
def test_what_a_file_says_and_what_it_leaves_to_plugins_and_models(folder: Path) -> None:
    out = written(folder)
    manifest = read_manifest(out)
    assert manifest.pipeline is not None
    same, add = manifest.pipeline.steps
    assert (manifest.name, manifest.version, manifest.model.raw) == ("acme.chain", 3, ("application/octet-stream",))
    assert same.stage is not None
    assert (same.stage.plugin, same.stage.function, same.stage.config) == (
        "plugins/same.wasm",
        "stage",
        b'{"k":2,"l":3}',
    )
    assert (add.model, len(add.bundle), [str(source) for source in add.sources]) == ("acme.one", 64, ["same.y"])
    assert [(spec.name, spec.dtype, spec.shape) for spec in manifest.outputs] == [
        ("sum", "FP32", ("n", 2)), ("kept", "FP32", ("batch", 2)),
    ]  # fmt: skip
    assert (out / "plugins" / "same.wasm").read_bytes().startswith(b"\0asm")
    pack_folder(out, io.BytesIO(), [PrivateKey.generate()])
    with pytest.raises(FileExists):
        written(folder)


@pytest.mark.slow
def test_a_model_may_be_a_folder_and_needs_no_pin(folder: Path) -> None:
    (folder / "chain.toml").write_text(FILE.replace("pin = true", 'outputs = ["y"]'))
    manifest = read_manifest(written(folder, ("one.seal", "one")))
    assert manifest.pipeline is not None
    assert manifest.pipeline.steps[1].bundle == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("pipeline/1", "pipeline/2"), "schema: must be"),
        (("raw = [", "row = ["), "row: is not a member"),
        (('x = "input.rows"', 'y = "input.rows"'), r"steps\[0\].from.x: is missing"),
        (('from = {x = "same.y"}', 'from = {x = "same.y", z = "same.y"}'), r"steps\[1\].from.z: is not a member"),
        (('from = "same.y"', 'from = "same.z"'), r"outputs\[1\].from: there is no 'same.z'"),
        (("one.seal", "two.seal"), "two.seal cannot be read"),
        (("one.seal", "one"), "pin: needs a .seal file"),
        (("pin = true", 'outputs = ["z"]'), r"outputs: acme.one gives \['y'\]"),
    ],
)
def test_what_is_wrong_is_said_by_place(folder: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(PipelineFileInvalid, match=says):
        written(folder, change)
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_what_does_not_fit_is_the_manifest_s_fault(folder: Path) -> None:
    with pytest.raises(ManifestInvalid, match=r"pipeline.steps\[0\].inputs: tensor 'x' cannot come from 'input.rows'"):
        written(folder, ('shape = ["n", 2]\n[[steps]]', 'shape = ["n", 3]\n[[steps]]'))


@pytest.mark.slow
def test_init_pack_and_show(folder: Path) -> None:
    app, run = build_app(), CliRunner().invoke
    made = run(app, ["init", str(folder / "chain.toml"), "--name", "acme.chain", "--out", str(folder / "made")])
    assert made.exit_code == 0, made.output
    packed = run(
        app,
        [
            "pack",
            str(folder / "made" / "bundle"),
            "--key",
            str(folder / "made" / "publisher.key"),
            "-o",
            str(folder / "c.seal"),
        ],
    )
    assert packed.exit_code == 0, packed.output
    shown = run(app, ["show", str(folder / "c.seal")])
    assert "step  same: plugins/same.wasm, from input.rows" in shown.output
    assert "step  add: model acme.one" in shown.output
    assert 'models = ["acme.chain"]' in (folder / "made" / "trust.toml").read_text()
    assert json.loads((folder / "made" / "bundle" / "bundle.json").read_text())["pipeline"]["raw"]
