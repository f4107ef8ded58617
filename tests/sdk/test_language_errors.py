"""What an author sees when a plugin in one of the compiled languages does not build."""

from collections.abc import Mapping

import pytest

from sandseal_sdk.build import build_plugin
from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin.plugin_spec import LANGUAGES
from support.rust import find_rust_or_skip

GOOD: Mapping[str, str] = {
    "cpp": """#include <sandseal.hpp>
SANDSEAL_STAGE(stage) {
    auto x = call.input(0).data<float>();
    call.output(0).give({x.size()}, x);
    return sandseal::done;
}
""",
    "zig": """const sandseal = @import("sandseal");
comptime { sandseal.stage("stage", stage); }
fn stage(call: *sandseal.Call) !void {
    call.output(0).give(f32, call.input(0).axes(), call.input(0).items(f32));
}
""",
    "assemblyscript": """import { Call, DONE, Level, log } from "sandseal";
export function stage(call: Call): i32 {
    const x = call.input(0).items<f32>();
    call.output(0).give<f32>([x.length], x);
    return DONE;
}
""",
    "rust": """use sandseal::{stage, Call, Refusal};
stage!(stage);
fn stage(call: &Call) -> Result<(), Refusal> {
    call.output(0).share(call.input(0).shape(), call.input(0).items::<f32>());
    Ok(())
}
""",
}
LOGS: Mapping[str, str] = {
    "cpp": 'sandseal::log(sandseal::Level::info, "hello");',
    "zig": 'sandseal.log(.info, "hello");',
    "assemblyscript": 'log(Level.INFO, "hello");',
    "rust": 'sandseal::log(sandseal::Level::Info, "hello");',
}
pytestmark = pytest.mark.slow


@pytest.fixture(params=GOOD)
def language(request: pytest.FixtureRequest) -> str:
    if request.param == "rust":
        find_rust_or_skip()
    return str(request.param)


def test_a_compile_error_shows_the_authors_file_and_line(language, make_plugin):
    folder = make_plugin(language, GOOD[language].replace("call.input(0)", "call.input(nothing)"))
    with pytest.raises(BuildError) as caught:
        build_plugin(folder)
    line = next(i for i, text in enumerate(GOOD[language].splitlines(), 1) if "call.input(0)" in text)
    first, *rest = caught.value.message.splitlines()
    assert first.startswith(f"{LANGUAGES[language]}:{line}:")
    assert "nothing" in first
    assert any("call.input(nothing)" in quoted for quoted in rest)
    assert (caught.value.data["file"], caught.value.data["line"]) == (LANGUAGES[language], line)


def test_a_mistake_that_shows_in_the_library_is_told_where_the_author_made_it(language, make_plugin):
    wrong = {
        "cpp": "data<float, 3>",
        "zig": "items([2]f32)",
        "assemblyscript": "items<Call, f32>",
        "rust": "items::<&str>",
    }
    right = {"cpp": "data<float>", "zig": "items(f32)", "assemblyscript": "items<f32>", "rust": "items::<f32>"}
    source = GOOD[language].replace(right[language], wrong[language])
    with pytest.raises(BuildError) as caught:
        build_plugin(make_plugin(language, source))
    line = next(i for i, text in enumerate(source.splitlines(), 1) if wrong[language] in text)
    assert (caught.value.data["file"], caught.value.data["line"]) == (LANGUAGES[language], line)


def test_what_plugin_toml_does_not_allow_is_found_at_once(language, make_plugin):
    logs = GOOD[language].replace("    call.output(0)", f"    {LOGS[language]}\n    call.output(0)")
    with pytest.raises(BuildError, match=r"imports sandseal\.log") as caught:
        build_plugin(make_plugin(language, logs))
    assert '"log"' in caught.value.hint


def test_a_missing_stage_function_is_found_at_once(make_plugin):
    folder = make_plugin("zig", GOOD["zig"])
    spec = folder / "plugin.toml"
    spec.write_text(spec.read_text().replace('function = "stage"', 'function = "other"'))
    with pytest.raises(BuildError, match="does not define the stage 'other'") as caught:
        build_plugin(folder)
    assert 'comptime { sandseal.stage("other", other); }' in caught.value.hint


def test_the_same_source_gives_the_same_bytes_and_names_no_folder(language, make_plugin, tmp_path):
    first, second = (build_plugin(make_plugin(language, GOOD[language], name=name)) for name in ("one", "two"))
    assert first.wasm.read_bytes() == second.wasm.read_bytes()
    assert not any(name in first.wasm.read_bytes() for name in (str(tmp_path).encode(), b"sandseal_sdk", b"/usr/"))
    assert first.imports == ()
