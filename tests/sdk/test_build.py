"""Building C plugins, and what is common to all languages; test_python.py has the other one."""

import shutil

import pytest

from sandseal_sdk.build import build_plugin
from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin.wasm_module import read_surface

pytestmark = pytest.mark.slow  # each starts processes

GOOD = """#include <sandseal.h>
SANDSEAL_STAGE(stage) {
    const struct sandseal_tensor *x = sandseal_input(call, 0);
    sandseal_give(sandseal_output(call, 0), x->shape, sandseal_data(x), x->byte_len);
    return SANDSEAL_DONE;
}
"""


def test_a_module_imports_nothing_and_exports_the_abi(make_plugin):
    built = build_plugin(make_plugin("c", GOOD))
    surface = read_surface(built.wasm.read_bytes())
    assert surface.imports == built.imports == ()
    assert {"memory", "sandseal_abi", "sandseal_alloc", "sandseal_reset", "stage"} == set(surface.exports)
    assert built.wasm == built.spec.folder / "build" / "tried.wasm"


def test_the_second_build_finds_nothing_to_do(make_plugin, tmp_path):
    folder = make_plugin("c", GOOD)
    lines = []
    assert not build_plugin(folder, progress=lines.append).cached
    again = build_plugin(folder, tmp_path / "copy.wasm", lines.append)
    assert again.cached
    assert again.wasm.read_bytes() == (folder / "build" / "tried.wasm").read_bytes()
    assert lines == ["compiling plugin.c to WebAssembly"]


@pytest.mark.parametrize("file", ["plugin.c", "plugin.toml", "more.h"])
def test_a_change_of_any_source_builds_again(make_plugin, file):
    folder = make_plugin("c", GOOD)
    build_plugin(folder)
    with (folder / file).open("a") as changed:
        changed.write("\n")
    assert not build_plugin(folder).cached


def test_cases_and_readme_are_no_source(make_plugin):
    folder = make_plugin("c", GOOD)
    build_plugin(folder)
    (folder / "README.md").write_text("words")
    (folder / "cases").mkdir()
    (folder / "cases" / "one.json").write_text("{}")
    assert build_plugin(folder).cached


def test_the_same_source_gives_the_same_bytes_anywhere(make_plugin, tmp_path):
    first = make_plugin("c", GOOD)
    second = tmp_path / "elsewhere" / "deeper"
    shutil.copytree(first, second)
    assert build_plugin(first).wasm.read_bytes() == build_plugin(second).wasm.read_bytes()


def test_a_module_names_no_folder_of_the_machine(make_plugin, tmp_path):
    wasm = build_plugin(make_plugin("c", GOOD)).wasm.read_bytes()
    assert str(tmp_path).encode() not in wasm
    assert b"ziglang" not in wasm


def test_a_compile_error_shows_the_authors_file_and_line(make_plugin):
    with pytest.raises(BuildError) as caught:
        build_plugin(make_plugin("c", GOOD.replace("x->byte_len", "byte_len")))
    first, quoted, *_ = caught.value.message.splitlines()
    assert first.startswith("plugin.c:4:")
    assert "byte_len" in first
    assert "sandseal_give" in quoted
    assert (caught.value.data["file"], caught.value.data["line"]) == ("plugin.c", 4)
    assert "Traceback" not in caught.value.message


def test_a_failed_build_is_not_taken_for_a_good_one(make_plugin):
    folder = make_plugin("c", GOOD)
    build_plugin(folder)
    (folder / "plugin.c").write_text("nonsense")
    for _ in range(2):
        with pytest.raises(BuildError):
            build_plugin(folder)


def test_warnings_reach_the_author(make_plugin):
    lines = []
    build_plugin(make_plugin("c", GOOD.replace("return", "int unused;\n    return")), progress=lines.append)
    assert any(line.startswith("plugin.c:5:") and "unused" in line for line in lines)


def test_a_missing_stage_function_is_found_at_once(make_plugin):
    with pytest.raises(BuildError, match="does not define the stage 'stage'"):
        build_plugin(make_plugin("c", GOOD.replace("SANDSEAL_STAGE(stage)", "SANDSEAL_STAGE(other)")))


def test_a_module_without_what_the_host_calls_is_found_at_once(make_plugin):
    with pytest.raises(BuildError, match="does not export sandseal_abi") as caught:
        build_plugin(make_plugin("c", '__attribute__((export_name("stage"))) int stage(int call) { return call; }'))
    assert "library" in caught.value.hint


def test_an_import_that_plugin_toml_does_not_list_is_found_at_once(make_plugin):
    logs = GOOD.replace("return", 'sandseal_log(SANDSEAL_INFO, "hello");\n    return')
    with pytest.raises(BuildError, match=r"imports sandseal\.log") as caught:
        build_plugin(make_plugin("c", logs))
    assert '"log"' in caught.value.hint
    granted = build_plugin(make_plugin("c", logs, rest='imports = ["log", "now"]', name="granted"))
    assert granted.imports == ("log",)


@pytest.mark.parametrize("needs", ["#include <math.h>\n", "extern void *malloc(__SIZE_TYPE__);\n"])
def test_what_needs_libc_says_so(make_plugin, needs):
    uses = GOOD.replace("return", "if (!malloc(1)) return 9;\n    return") if "malloc" in needs else GOOD
    with pytest.raises(BuildError) as caught:
        build_plugin(make_plugin("c", needs + uses))
    assert "libc = true" in caught.value.hint


def test_a_plugin_with_libc_imports_nothing_either(make_plugin, call):
    import numpy as np

    source = """
#include <math.h>
#include <sandseal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
SANDSEAL_STAGE(stage) {
    char text[32], *copy = strdup("abcdef");
    void *apart[40];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) {
            apart[i] = i % 2 ? malloc(1 << (i / 2)) : aligned_alloc(64, 64 * (i + 1));
            if (!apart[i] || (uintptr_t)apart[i] % 16 || (i % 2 == 0 && (uintptr_t)apart[i] % 64)) return 9;
            memset(apart[i], i, 1);
        }
        for (int i = 39; i >= 0; i -= round + 1) free(apart[i]);
    }
    copy = realloc(copy, 1000);
    snprintf(text, sizeof text, "%.3f", sin(0.5));
    fprintf(stderr, "%s %s\\n", copy, text);
    float *y = sandseal_make(sandseal_output(call, 0), (int64_t[]){1});
    y[0] = strtof(text, NULL) + (strcmp(copy, "abcdef") == 0);
    return SANDSEAL_DONE;
}
"""
    built = build_plugin(make_plugin("c", source, rest="libc = true"))
    assert built.imports == ()
    assert call(built, np.zeros(1, np.float32))[0][0] == pytest.approx(1.479)


def test_a_cpp_plugin_with_libc_needs_no_libcxx(make_plugin, call):
    import numpy as np

    source = """
#include <math.h>
#include <sandseal.hpp>
#include <string.h>
struct Table {
    char *text;
    Table() : text(strdup("abc")) {}
};
static Table table;
SANDSEAL_STAGE(stage) {
    call.output(0).make<float>({1})[0] = sinf(0.5F) + float(strlen(table.text));
    return sandseal::done;
}
"""
    built = build_plugin(make_plugin("cpp", source, rest="libc = true"))
    assert built.imports == ()
    assert call(built, np.zeros(1, np.float32))[0][0] == pytest.approx(3.479426)
