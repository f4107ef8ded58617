import pytest

from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_sdk.toolchains.plugin_source import Unsupported
from sandseal_sdk.toolchains.signature import read_settings

REST = """imports = ["asset"]
assets = ["a.txt"]
parameters = { top_k = 5, scale = 1.5, who = "\u00fc", weights = { a = 1 }, on = true }
config = { stop = ["a", "b"], odd = [1, "a"] }
"""
TAKES = "*, top_k, scale: float, who: str, weights: dict[str, float], on: bool, stop"


@pytest.fixture
def read(make_plugin):
    spec = read_plugin_spec(make_plugin("python", "", [("x", "FP32", ["n"]), ("t", "BYTES", [1])], rest=REST))

    def read(parameters):
        (spec.folder / spec.source).write_text(f"def stage({parameters}):\n  pass")
        return read_settings(spec)

    return read


def test_settings_come_from_the_request_the_config_or_plugin_toml(read):
    settings = {setting.name: setting for setting in read(f"x, t, a, {TAKES}")}
    assert {name: (s.origin, s.kind) for name, s in settings.items()} == {
        "top_k": ("parameters", "int"),
        "scale": ("parameters", "float"),
        "who": ("parameters", "str"),
        "weights": ("parameters", "dict[str, float]"),
        "on": ("parameters", "bool"),
        "stop": ("config", "list[str]"),
    }
    assert settings["top_k"].read({"top_k": 7}) == 7
    assert settings["scale"].read({"scale": 2}) == 2.0
    assert settings["who"].read({}) == "\u00c3\u00bc"
    assert settings["stop"].read({"stop": []}) == []


@pytest.mark.parametrize(
    ("name", "wrong"), [("top_k", 1.0), ("top_k", True), ("top_k", 1 << 63), ("who", 3), ("weights", {"a": "b"})]
)
def test_a_setting_of_another_type_is_refused(read, name, wrong):
    settings = {setting.name: setting for setting in read(f"x, t, a, {TAKES}")}
    with pytest.raises(ValueError, match=f"parameters: {name} must be"):
        settings[name].read({name: wrong})


@pytest.mark.parametrize(
    "parameters",
    ["x: np.ndarray, t: str, a: str", "x: NDArray[np.float32], t, a", "x: 'npt.NDArray[np.float32]', t, a"],
)
def test_annotations_may_say_what_plugin_toml_says(read, parameters):
    assert read(f"{parameters}, {TAKES}")


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ("x, t", "one plain parameter for each of: x, t, a.txt"),
        ("x, t, a=''", "plain parameter"),
        ("*values", "plain parameter"),
        ("x: NDArray[np.int64], t, a", r"plugin.toml makes it NDArray\[float32\]"),
        ("x, t: list[str], a", "plugin.toml makes it str"),
        ("x, t, a, *, other", r"other is neither in \[parameters\] nor in \[config\]"),
        ("x, t, a, *, odd", "odd cannot be of the type"),
        ("x, t, a, *, top_k: str", "top_k is str, but plugin.toml gives 5"),
        ("x, t, a, *, top_k: complex", "top_k cannot be complex"),
        ("x, t, a, *, top_k", "which stage does not take"),
    ],
)
def test_what_does_not_fit_plugin_toml_is_refused(read, parameters, why):
    with pytest.raises(Unsupported, match=why) as caught:
        read(parameters)
    assert (caught.value.file, caught.value.line) == ("plugin.py", 1)
