import pytest

from sandseal_sdk.errors import PluginFolderInvalid
from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_signing.stage import Limits, StageSpec
from sandseal_signing.tensor import DataType, TensorSpec

GOOD = """
schema = "sandseal.plugin/1"
name = "scale"
language = "c"
source = "plugin.c"
function = "scale"
stage = "post"
libc = true
imports = ["log", "asset"]
assets = ["assets/table.txt"]

[[inputs]]
name = "x"
dtype = "FP32"
shape = ["batch", 3]

[[outputs]]
name = "label"
dtype = "BYTES"
shape = ["k"]

[limits]
memory_mib = 8
time_ms = 5

[config]
top_k = 3
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "plugin.c").write_text("")
    return tmp_path


def write(folder, text):
    (folder / "plugin.toml").write_text(text, encoding="utf-8")
    return folder


def test_plugin_toml_is_a_stage_and_how_to_build_it(folder):
    spec = read_plugin_spec(write(folder, GOOD))
    assert (spec.name, spec.language, spec.source, spec.position) == ("scale", "c", "plugin.c", "post")
    assert (spec.libc, spec.folder) == (True, folder)
    assert spec.stage == StageSpec(
        plugin="plugins/scale.wasm",
        function="scale",
        inputs=(TensorSpec("x", DataType.FP32, ("batch", 3)),),
        outputs=(TensorSpec("label", DataType.BYTES, ("k",)),),
        limits=Limits(8, 5),
        imports=("log", "asset"),
        assets=("assets/table.txt",),
        config=b'{"top_k":3}',
    )


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("sandseal.plugin/1", "sandseal.plugin/2", "schema"),
        ('language = "c"', 'language = "cobol"', "language: must be python or c or cpp or zig"),
        ('stage = "post"', 'stage = "middle"', "stage: must be pre or post"),
        ('source = "plugin.c"', 'source = "other.c"', "no file 'other.c'"),
        ('name = "scale"', 'name = "Scale Me"', "name"),
        ('dtype = "FP32"', 'dtype = "FLOAT"', "inputs[0].dtype"),
        ('imports = ["log", "asset"]', 'imports = ["log"]', 'needs "asset"'),
        ('imports = ["log", "asset"]', 'imports = ["files"]', "imports"),
        ("libc = true", "libc = 1", "libc"),
        ("libc = true", "speed = 9", "speed: is not a member"),
        ("libc = true", 'plugin = "x.wasm"', "plugin: is not a member"),
        ("top_k = 3", "top_k = 2027-01-01", "not JSON serializable"),
        ("top_k = 3", "top_k = inf", "JSON"),
        ("[limits]", "[limits", "line"),
    ],
)
def test_a_wrong_plugin_toml_names_the_place(folder, old, new, where):
    assert old in GOOD
    with pytest.raises(PluginFolderInvalid) as caught:
        read_plugin_spec(write(folder, GOOD.replace(old, new, 1)))
    assert where in caught.value.message
    assert "plugin.toml" in caught.value.message


def test_parameters_are_for_python_only(folder):
    with pytest.raises(PluginFolderInvalid, match="parameters"):
        read_plugin_spec(write(folder, "parameters = { top_k = 5 }\n" + GOOD))


def test_libc_is_for_c_only(folder):
    (folder / "plugin.py").write_text("")
    with pytest.raises(PluginFolderInvalid, match="libc"):
        read_plugin_spec(write(folder, GOOD.replace('"c"', '"python"').replace("plugin.c", "plugin.py")))


def test_a_folder_without_plugin_toml_is_no_plugin(tmp_path):
    with pytest.raises(PluginFolderInvalid, match=r"holds no plugin\.toml"):
        read_plugin_spec(tmp_path)
