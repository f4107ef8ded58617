import json
import time
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rfc8785 import dumps

from sandseal_signing.errors import JsonInvalid, ManifestInvalid, PolicyInvalid
from sandseal_signing.schema import MAX_DEPTH, MAX_INTEGER, Node, canonical_json, parse_json

SCALARS = st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)

brief = settings(max_examples=50, deadline=None)


@brief
@given(VALUES)
def test_what_json_can_say_comes_back(value: Any) -> None:
    for ascii_only in (True, False):
        assert parse_json(json.dumps(value, ensure_ascii=ascii_only).encode(), "x") == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not strict JSON"),
        (b"{", "not strict JSON"),
        (b"[1,]", "not strict JSON"),
        (b"{} {}", "not strict JSON"),
        (b"'x'", "not strict JSON"),
        (b'"\x01"', "not strict JSON"),
        (b'"\xff"', "not strict JSON"),
        (b"\xef\xbb\xbf{}", "not strict JSON"),
        (b"{}\x00", "not strict JSON"),
        (b"// x\n{}", "not strict JSON"),
        (b'{"a":1,"b":2,"a":1}', "member 'a' stands twice"),
        (b'[{"a":{"b":1,"\\u0062":1}}]', "member 'b' stands twice"),
        (b"NaN", "NaN is not a number"),
        (b"[Infinity]", "Infinity is not a number"),
        (b'{"a":-Infinity}', "-Infinity is not a number"),
        (b"1e999", "the number 1e999 is beyond a double"),
        (b"-1e999", "the number -1e999 is beyond a double"),
        (b"9007199254740992", "is not below 2^53"),
        (b"-9007199254740992", "is not below 2^53"),
        (b"1" * 5000, "is not below 2^53"),
        (b'"\\ud800"', "surrogates not allowed"),
        (b'{"\\udc00":1}', "surrogates not allowed"),
        (b"[" * 17 + b"]" * 17, "nested deeper than 16"),
        (b'{"a":' * 17 + b"1" + b"}" * 17, "nested deeper than 16"),
        (b"]" * 3 + b"[" * 25, "nested deeper than 16"),
    ],
)
def test_what_strict_json_refuses(text: bytes, why: str) -> None:
    with pytest.raises(JsonInvalid, match=why.replace("^", r"\^")) as caught:
        parse_json(text, "the file")
    assert caught.value.message.startswith("the file: ")
    assert caught.value.data == {"where": "the file"}
    assert len(caught.value.message) < 200


def test_the_edges_that_strict_json_takes() -> None:
    assert parse_json(b"9007199254740991", "x") == MAX_INTEGER
    assert parse_json(b"-9007199254740991", "x") == -MAX_INTEGER
    assert parse_json(b'"\\ud83d\\ude00 \\\\ud800"', "x") == "\U0001f600 \\ud800"
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "x")
    assert parse_json(b'["[[[[[[[[[[[[[[[[[[[[", "\\"[[[[[[[[[[[[[[[[["]', "x")


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b'"' + b'\\"' * 500_000,
        b'"' + b"\\" * 1_000_001,
        b'"a' * 333_333,
        b"[" + b'"' * 1_000_000,
        b"{" + b",".join(b'"%d":1' % i for i in range(80_000)) + b',"79999":1}',
        b"-" * 1_000_000,
        b"1" * 1_000_000,
        b"0." + b"1" * 1_000_000 + b"x",
    ],
    ids=lambda bomb: bomb[:6].decode(),
)
def test_a_bomb_of_a_million_bytes_is_refused_in_no_time(bomb: bytes) -> None:
    began = time.process_time()
    with pytest.raises(JsonInvalid):
        parse_json(bomb, "x")
    assert time.process_time() - began < 2.0  # quadratic would be minutes


@brief
@given(
    st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text("az_-AZ.09"), inner), max_leaves=20)
)
def test_canonical_json_is_rfc_8785(value: Any) -> None:
    assert canonical_json(value) == dumps(value)


def node(**members: Any) -> Node:
    return Node(members, "a.b", ManifestInvalid)


def refusal(ask: Any) -> str:
    with pytest.raises(ManifestInvalid) as caught:
        ask()
    assert caught.value.message.startswith(caught.value.data["where"] + ": ")
    return caught.value.message


def test_a_node_gives_each_member_once_and_refuses_the_rest() -> None:
    members = node(t="x", i=3, l=["a", "b"], c={"d": 1}, k=[{"e": 2}, {}], s=[3, 0], n=0.5, f="a/b", g=["c", "d"])
    assert members.has("t")
    assert not members.has("nothing")
    assert members.text("t") == "x"
    assert members.integer("i", low=3, high=3) == 3
    assert members.texts("l", least=2) == ("a", "b")
    assert members.integers("s", high=3) == (3, 0)
    assert members.number("n", low=0.5, high=1) == 0.5
    assert members.file("f") == "a/b"
    assert members.files("g") == ("c", "d")
    assert members.child("c").integer("d") == 1
    assert refusal(members.close) == "a.b.k: is not a member of this schema"
    first, second = members.children("k")
    assert first.integer("e") == 2
    second.close()
    members.close()
    assert refusal(lambda: members.text("t")) == "a.b.t: is missing"


def test_an_absent_member_gives_the_default_and_null_never_does() -> None:
    assert node().text("t", None) is None
    assert node().integer("t", 5) == 5
    assert node().texts("t", ()) == ()
    assert node().child("t", None) is None
    assert node().children("t", []) == []
    assert node().integers("t", ()) == ()
    assert node().number("t", None, low=0, high=1) is None
    assert node().file("t", None) is None
    assert node().files("t", ()) == ()
    number = partial(Node.number, low=0, high=1)
    texts = (Node.text, Node.texts, Node.file, Node.files)
    for getter in (*texts, Node.integer, Node.integers, number, Node.child, Node.children):
        assert "not null" in refusal(lambda getter=getter: getter(node(t=None), "t", None))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: node(t="").text("t"), 'a.b.t: must be a non-empty string, not ""'),
        (lambda: node(t=1).text("t"), "a.b.t: must be a non-empty string, not 1"),
        (lambda: node(t="B").text("t", valid="A".__eq__, rule="an A"), 'a.b.t: must be an A, not "B"'),
        (lambda: node(i=True).integer("i"), "a.b.i: must be an integer from 0 to 9007199254740991, not true"),
        (lambda: node(i=1.0).integer("i", high=9), "a.b.i: must be an integer from 0 to 9, not 1.0"),
        (lambda: node(i=10).integer("i", low=1, high=9), "a.b.i: must be an integer from 1 to 9, not 10"),
        (
            lambda: node(i=[1, True]).integers("i", high=9),
            "a.b.i: must be a list of integers from 0 to 9, not [1, true]",
        ),
        (lambda: node(i=[1, 10]).integers("i", high=9), "a.b.i: must be a list of integers from 0 to 9, not [1, 10]"),
        (lambda: node(i=[1, 1]).integers("i"), "a.b.i: holds an integer twice"),
        (lambda: node(n=True).number("n", low=0, high=1), "a.b.n: must be a number from 0 to 1, not true"),
        (lambda: node(n=1.5).number("n", low=0.5, high=1), "a.b.n: must be a number from 0.5 to 1, not 1.5"),
        (lambda: node(f="../a").file("f"), "a.b.f: file name '../a' has a part '.' or '..'"),
        (lambda: node(f=["a", ".."]).files("f"), "a.b.f: file name '..' has a part '.' or '..'"),
        (lambda: node(l="ab").texts("l"), 'a.b.l: must be a list of non-empty strings, not "ab"'),
        (lambda: node(l=["a", 1]).texts("l"), 'a.b.l: must be a list of non-empty strings, not ["a", 1]'),
        (lambda: node(l=["a", "a"]).texts("l"), "a.b.l: holds a string twice"),
        (lambda: node(l=[]).texts("l", least=1), "a.b.l: must hold at least 1"),
        (lambda: node(c=[]).child("c"), "a.b.c: must be an object, not []"),
        (lambda: node(k={}).children("k"), "a.b.k: must be a list of objects, not {}"),
        (lambda: node(k=[{}, 1]).children("k"), "a.b.k[1]: must be an object, not 1"),
        (
            lambda: node(t="y" * 100).integer("t"),
            'a.b.t: must be an integer from 0 to 9007199254740991, not "' + "y" * 56 + "...",
        ),
        (lambda: Node(1, "", ManifestInvalid), "the document: must be an object, not 1"),
        (lambda: node().fail("", "is odd"), "a.b: is odd"),
        (lambda: node(**{"\x1b[2J": 1}).close(), r"a.b.'\x1b[2J': is not a member of this schema"),
        (lambda: node(**{"n" * 99: 1}).close(), f"a.b.'{'n' * 80}': is not a member of this schema"),
    ],
)
def test_a_refusal_names_the_place_the_rule_and_the_value(ask: Any, message: str) -> None:
    assert refusal(ask) == message


def test_a_node_raises_its_documents_own_error() -> None:
    with pytest.raises(PolicyInvalid):
        Node({}, "", PolicyInvalid).take("serial")
