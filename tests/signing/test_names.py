import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing.errors import NameInvalid
from sandseal_signing.names import check_name, check_names, is_model_name, split_ustar

GOOD = [
    "bundle.json",
    "model.onnx",
    "a",
    "A-_.9",
    ".hidden",
    "..a",
    "...a",
    "a/b/c/d/e/f/g/h",
    "x" * 100,
    "plugins/model.sig",
    "assets/signatures/x",
    "signatures.txt",
    "assets/.git/config",
    "nul-terminated.txt",
    "com10",
    "console",
    "p" * 100 + "/" + "b" * 100,
    "/".join(["p" * 50] * 4 + ["q" * 40]),
]
BAD = {
    "": "empty",
    "/a": "empty",
    "a/": "empty",
    "a//b": "empty",
    "a b": "not made of",
    "a\\b": "not made of",
    "a:b": "not made of",
    "a\nb": "not made of",
    "a\n": "not made of",
    "a\0b": "not made of",
    "caf\u00e9": "not made of",
    "\u0661": "not made of",
    "x" * 101: "over 100 bytes",
    ".": "'.' or '..'",
    "..": "'.' or '..'",
    "../model.onnx": "'.' or '..'",
    "a/../b": "'.' or '..'",
    "a/./b": "'.' or '..'",
    "a.": "Windows",
    "a/b.../c": "Windows",
    "con": "Windows",
    "assets/NUL.txt": "Windows",
    "Aux/x": "Windows",
    "a/com1.tar.gz": "Windows",
    "a/b/c/d/e/f/g/h/i": "8 levels",
    "/".join(["p" * 50] * 5): "155 + 100",
    "/".join(["p" * 63] * 4) + "xx": "255 bytes",
    "p" * 100 + "/" + "p" * 56 + "/" + "b" * 90: "155 + 100",
    "signatures": "for signatures",
    "signatures/x.sig": "for signatures",
    "Signatures/x": "for signatures",
    "model.sig": "leaves out",
    "Model.SIG": "leaves out",
    ".git": "leaves out",
    ".gitignore": "leaves out",
    ".GitHub/workflows": "leaves out",
    ".gitx/y": "leaves out",
}


@pytest.mark.parametrize("name", GOOD, ids=lambda name: name[:30])
def test_good_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(("name", "why"), BAD.items(), ids=lambda text: ascii(text[:30]))
def test_bad_names_say_which_rule_they_break(name: str, why: str) -> None:
    with pytest.raises(NameInvalid, match=why.replace("+", r"\+")) as caught:
        check_name(name)
    assert caught.value.data == {"name": name}
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("a", "b", "a"), "'a' stands twice"),
        (("Model.onnx", "model.onnx"), "'Model.onnx' and 'model.onnx' are the same path"),
        (("assets/x", "Assets/y"), "'assets' and 'Assets' are the same path"),
        (("a/b", "A"), "'a' and 'A' are the same path"),
        (("a", "a/b"), "'a' is also the folder of 'a/b'"),
        (("a/b/c", "a/b"), "'a/b' is also the folder of 'a/b/c'"),
        (("a", ".."), "'.' or '..'"),
    ],
)
def test_names_that_cannot_live_together(names: tuple[str, ...], why: str) -> None:
    with pytest.raises(NameInvalid, match=why):
        check_names(names)


def test_names_that_can_live_together() -> None:
    check_names(["a/b", "a/c", "a.b", "ab", "a-b/c"])
    check_names([])


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("n" * 100, ("", "n" * 100)),
        ("n" * 101, None),
        ("p/" + "n" * 99, ("p", "n" * 99)),
        ("p" * 155 + "/" + "n" * 100, ("p" * 155, "n" * 100)),
        ("p" * 156 + "/" + "n" * 100, None),
        ("p" * 155 + "/" + "n" * 101, None),
        ("a/" + "p" * 50 + "/" + "n" * 49, ("a", "p" * 50 + "/" + "n" * 49)),
        ("a/" + "p" * 50 + "/" + "n" * 50, ("a/" + "p" * 50, "n" * 50)),
        ("/" + "n" * 100, None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_ustar_split_at_the_edges(name: str, split: tuple[str, str] | None) -> None:
    assert split_ustar(name) == split


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=8))
def test_a_name_is_refused_for_its_length_exactly_when_it_does_not_fit(lengths: list[int]) -> None:
    name = "/".join("n" * length for length in lengths)
    slashes = [i for i, letter in enumerate(name) if letter == "/"]
    fits = len(name) <= 100 or any(at <= 155 and len(name) - at - 1 <= 100 for at in slashes)
    if fits and len(name) <= 255:
        assert check_name(name) == name
        prefix, base = split_ustar(name) or ("", "")
        assert "/".join(filter(None, (prefix, base))) == name
    else:
        with pytest.raises(NameInvalid):
            check_name(name)


@pytest.mark.parametrize("name", ["a", "7", "acme.file-type", "a_b", "a" * 128, "a."])
def test_model_names(name: str) -> None:
    assert is_model_name(name)


@pytest.mark.parametrize("name", ["", ".a", "-a", "_a", "A", "a/b", "a b", "a\n", "a" * 129, "\u00e9"])
def test_what_is_no_model_name(name: str) -> None:
    assert not is_model_name(name)
