import json

import pytest

from sandseal_sdk.errors import BuildError
from sandseal_sdk.toolchains.assemblyscript import read_messages as read_assemblyscript
from sandseal_sdk.toolchains.compiler import Outcome
from sandseal_sdk.toolchains.diagnostics import read_diagnostics, settle, undefined_symbols
from sandseal_sdk.toolchains.rust import read_messages as read_rust

CLANG = r"""In file included from plugin.c:1:
plugin.c:4:12: error: use of undeclared identifier 'scale'
    4 |     return scale * 2;
      |            ^~~~~
C:\work\plugin.c:9:1: warning: unused variable 'x' [-Wunused-variable]
    9 | int x;
      | ^
src/deep.h:2:3: fatal error: 'nowhere.h' file not found
1 error generated.
"""


def failure(said):
    with pytest.raises(BuildError) as caught:
        settle(Outcome(False, said), read_diagnostics(said), pytest.fail)
    return caught.value


def test_errors_carry_file_line_and_the_quoted_source():
    first, second, third = read_diagnostics(CLANG)
    assert (first.file, first.line, first.column, first.is_error) == ("plugin.c", 4, 12, True)
    assert str(first).splitlines() == [
        "plugin.c:4:12: use of undeclared identifier 'scale'",
        "    4 |     return scale * 2;",
        "      |            ^~~~~",
    ]
    assert (second.file, second.line, second.is_error) == (r"C:\work\plugin.c", 9, False)
    assert (third.file, third.kind, third.is_error, third.excerpt) == ("src/deep.h", "fatal error", True, "")


def test_words_without_a_place_are_no_diagnostics():
    assert read_diagnostics("ld: something\nerror: undefined symbol: malloc\n") == []


def test_what_the_linker_missed():
    text = "error: undefined symbol: malloc\n  note: referenced by a.o\n" + "error: undefined symbol: malloc\n" * 2
    text += "error: undefined symbol: expf"
    assert undefined_symbols(text) == ["malloc", "expf"]


ZIG = """/library/sandseal.zig:62:21: error: no tensor has elements of type [2]f32
            else => @compileError("no tensor has elements of type " ++ @typeName(T)),
                    ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
referenced by:
    items__func_1: /library/sandseal.zig:91:29
    preprocess: plugin.zig:8:39
    6 reference(s) hidden; use '-freference-trace=8' to see all references
"""


def test_a_mistake_that_shows_in_a_library_is_told_where_the_author_made_it():
    error = failure(ZIG)
    first, second, quoted, *_ = error.message.splitlines()
    assert first == "plugin.zig:8:39: no tensor has elements of type [2]f32"
    assert second.startswith("/library/sandseal.zig:62:21: ")
    assert "@compileError" in quoted
    assert (error.data["file"], error.data["line"]) == ("plugin.zig", 8)


def test_further_errors_are_counted_and_none_is_said_as_it_is():
    assert failure(CLANG).message.endswith("(and 1 more)")
    assert failure("no such target\n").message == "the compiler failed: no such target"


def test_warnings_of_a_build_that_succeeds_reach_the_author():
    lines = []
    settle(Outcome(True, CLANG), read_diagnostics(CLANG), lines.append)
    assert len(lines) == 3


ASSEMBLYSCRIPT = """WARNING AS201: Conversion from type 'usize' to 'u32' will require an explicit cast.
   :
 2 │ this.data = data;
   │             ~~~~
   └─ in ~lib/sandseal.ts(2,21)

ERROR TS2304: Cannot find name 'foo'.
   :
 6 │ return foo();
   │        ~~~
   └─ in plugin.ts(6,12)

FAILURE 1 compile error(s)
"""


def test_assemblyscripts_messages():
    warning, error = read_assemblyscript(ASSEMBLYSCRIPT)
    assert (warning.is_error, warning.is_authors) == (False, False)
    assert (error.is_error, error.is_authors) == (True, True)
    assert str(error).splitlines() == [
        "plugin.ts:6:12: Cannot find name 'foo'.",
        " 6 │ return foo();",
        "   │        ~~~",
    ]


RUST = {
    "message": "cannot find value `valu` in this scope",
    "level": "error",
    "spans": [{"file_name": "plugin.rs", "line_start": 6, "column_start": 8, "is_primary": True}],
    "rendered": "error[E0425]: valu\n --> plugin.rs:6:8\n  |\n6 |     Ok(valu)\n  |        ^^^^ not found\n",
}


def test_rusts_messages():
    ending = {"message": "aborting due to previous error", "level": "error", "spans": [], "rendered": "error"}
    (error,) = read_rust("\n".join(json.dumps(message) for message in (RUST, ending)))
    assert str(error).splitlines() == [
        "plugin.rs:6:8: cannot find value `valu` in this scope",
        "6 |     Ok(valu)",
        "  |        ^^^^ not found",
    ]
