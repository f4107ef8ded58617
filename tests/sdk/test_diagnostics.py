from sandseal_sdk.toolchains.diagnostics import read_diagnostics, undefined_symbols

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
