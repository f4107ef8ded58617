"""Answers under a JSON schema: what is chosen at random is valid by the `jsonschema` package, and what is valid can be
chosen."""

import json
import random

import jsonschema
import numpy as np
import pytest

from plugins.logits import PADDED, SPECIAL, STOP, TOKENS, LogitsPlugin
from sandseal_host.errors import InputRefused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plugin(engine):
    plugin = LogitsPlugin(engine, "json-schema-logits")
    yield plugin
    plugin.close()


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 8},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "b c", 3, None, {"x": [1, ']\\"']}]}, "maxItems": 3},
        "ok": {"type": ["boolean", "null"]},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {"Leaf": {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}},
    "anyOf": [{"$ref": "#/$defs/Leaf"}, {"type": "array", "items": {"$ref": "#/$defs/Leaf"}, "minItems": 2}],
}
VALID = [
    (PERSON, [{"name": "a", "tags": []}, {"name": "ä€🙂", "age": -120, "tags": ["a", 3, None], "ok": None}]),
    (PERSON, [{"name": '"\\\n', "tags": [{"x": [1, ']\\"']}, "b c"], "ok": True}]),
    (TREE, [{"value": 1.5e-7}, [{"value": 0}, {"value": -0.25}, {"value": 1e30}]]),
    (
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
        [[1, 2], [0, -1, 10], [1, 2, 3, 4]],
    ),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 3}, [[True, False, True], [True] * 9]),
    ({"type": "array", "maxItems": 0}, [[]]),
    ({"type": "array"}, [[], [1, "a", [None, {}], {"a": {"b": []}}]]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"a": 1, "ü": 2}]),
    ({"type": "object", "additionalProperties": False}, [{}]),
    ({"type": "object", "properties": {"a": {"const": [1, {"b": " "}]}}}, [{}, {"a": [1, {"b": " "}]}]),
    ({"properties": {"a": {}, "b": True}, "required": ["b"]}, [{"b": [[["x"]]]}, {"a": None, "b": {"c": 1}}]),
    ({"type": "string"}, ["", "any \u007f text\t"]),
    ({"type": "string", "minLength": 2, "maxLength": 2}, ["ab", "€\u0000"]),
    ({"enum": ["yes", "no"]}, ["yes", "no"]),
    ({"enum": list(range(3000))}, [2999]),
    ({"properties": {f"p{i}": {"const": i} for i in range(256)}}, [{"p255": 255}]),
    ({"oneOf": [{"type": "null"}, {"type": "number"}]}, [None, 12, -3.5]),
    ({}, [{}, {"a": [1, {"b": {"c": None}}]}]),
]
SCHEMAS = [schema for schema, _ in VALID]


def tokens_of(text):
    """The longest tokens from left to right."""
    data, found = text.encode(), []
    known = {token: i for i, token in enumerate(TOKENS) if token and i != STOP}
    while data:
        size = next(size for size in (4, 3, 2, 1) if data[:size] in known)
        found.append(known[data[:size]])
        data = data[size:]
    return found


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_chosen_at_random_is_valid(plugin, schema, seed):
    source, text, ids = random.Random(seed), b"", []
    with plugin.stream(json_schema=schema) as stream:
        for step in range(400):
            allowed = stream.allowed(ids)
            assert allowed
            assert SPECIAL not in allowed
            if STOP in allowed:
                jsonschema.validate(json.loads(text), schema)
                if len(allowed) == 1 or step > 30:
                    return
            choices = sorted(allowed - {STOP})
            closing = [token for token in choices if TOKENS[token][:1] in (b'"', b"]", b"}", b"0")]
            ids = [source.choice(closing if closing and step > 30 else choices)]
            text += TOKENS[ids[0]]
    pytest.fail(f"no end after {text!r}")


@pytest.mark.parametrize(("schema", "values"), VALID, ids=lambda value: json.dumps(value)[:40])
def test_what_is_valid_can_be_chosen(plugin, schema, values):
    for value in values:
        for separators in ((",", ":"), (", ", ": ")):
            for ascii_only in (True, False) if "🙂" not in str(value) else (False,):  # no surrogates in escapes
                text = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
                with plugin.stream(json_schema=schema) as stream:
                    ids = []
                    for token in tokens_of(text):
                        allowed = stream.allowed(ids)
                        assert token in allowed, (text, TOKENS[token])
                        ids = [token]
                    assert STOP in stream.allowed(ids), text


def test_without_a_schema_nothing_changes(plugin):
    with plugin.stream() as stream:
        assert stream.allowed() == set(range(PADDED))


def test_kept_logits_are_unchanged(plugin):
    logits = np.random.default_rng(0).standard_normal(PADDED).astype(np.float32)
    with plugin.stream(json_schema={"enum": [True]}) as stream:
        found = stream.call((), logits)
    assert found[ord("t")] == logits[ord("t")]
    assert np.isneginf(np.delete(found, [ord("t"), TOKENS.index(b"true")])).all()


def test_a_long_answer_in_many_states(plugin):
    line = {"type": "string", "minLength": 40, "maxLength": 40}
    text = json.dumps(["x" * 40] * 12, separators=(",", ":"))
    with plugin.stream(json_schema={"type": "array", "items": line, "minItems": 12, "maxItems": 12}) as stream:
        ids = []
        for token in tokens_of(text):
            assert token in stream.allowed(ids)
            ids = [token]
        assert stream.allowed(ids) == {STOP}


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "integer", "minimum": 3}, "keyword that is not supported"),
        ({"type": "string", "pattern": "a*"}, "keyword that is not supported"),
        ({"type": "text"}, "a type in the schema is unknown"),
        ({"type": []}, "a list of types in the schema is empty"),
        ({"enum": []}, "a list of choices in the schema is empty"),
        ({"type": "string", "maxLength": 10**9}, "negative or too large"),
        ({"type": "string", "minLength": 30_000}, "too large"),
        ({"$ref": "#"}, "nested too deeply, or refers to itself"),
        ({"$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}, "$ref": "#/$defs/A"}, "refers to itself"),
        ({"$ref": "#/$defs/None"}, "leads nowhere"),
        ({"anyOf": [{"type": "null"}], "type": "null"}, "combines keywords"),
        ({"enum": [1], "const": 1}, "combines keywords"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "over its maximum"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "over its maximum"),
        ({"properties": {"a": {}}, "required": ["b"]}, "requires a property that it does not describe"),
        ({"type": "object", "required": ["b"]}, "requires a property that it does not describe"),
        ({"$ref": "http://example.org"}, "does not begin with '#'"),
        ("text", "a schema must be an object"),
        ({"properties": {str(number): {} for number in range(300)}}, "too many properties"),
    ],
)
def test_schemas_that_cannot_be_kept_to_are_refused(plugin, schema, says):
    with plugin.stream(json_schema=schema) as stream, pytest.raises(InputRefused, match=says):
        stream.call()


def test_other_constraints_are_refused(plugin):
    with (
        plugin.stream(banned_strings=["a"]) as stream,
        pytest.raises(InputRefused, match="no constraint but json_schema"),
    ):
        stream.call()


def test_a_token_that_was_chosen_all_the_same(plugin):
    with plugin.stream(json_schema={"type": "integer"}) as stream:
        stream.call()
        with pytest.raises(InputRefused, match="was chosen that the schema does not allow"):
            stream.call([ord("x")])


MARKS = ["<call>", "</call>"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No calls at all, 1 < 2 and <ca is none.",
        "<call>12</call>",
        "Well: <call>\n12\n</call> and <<call> 7 </call>",
        "<c<call>0</call><call>1</call>äö",
    ],
)
def test_values_between_marks_may_stand_in_any_text(plugin, text):
    with plugin.stream(json_schema={"type": "integer"}, within=MARKS) as stream:
        ids = []
        for token in tokens_of(text):
            assert token in stream.allowed(ids), TOKENS[token]
            ids = [token]
        assert STOP in stream.allowed(ids)


@pytest.mark.parametrize(
    ("text", "wrong"), [("<call>", "n"), ("<call>1", "x"), ("<call>1</", "d"), ("<call>\n", "<"), ("a<call>", "a")]
)
def test_between_marks_nothing_else_may_stand(plugin, text, wrong):
    with plugin.stream(json_schema={"type": "integer"}, within=MARKS) as stream:
        allowed = stream.allowed(tokens_of(text))
        assert ord(wrong) not in allowed
        assert STOP not in allowed


def test_a_token_that_begins_a_call_and_goes_on_wrongly(engine):
    tokens = [*TOKENS, b"<call>1", b"<call>x", b"</call> y"]
    plugin = LogitsPlugin(engine, "json-schema-logits", tokens)
    good, bad, end = range(len(TOKENS), PADDED)
    with plugin.stream(json_schema={"type": "integer"}, within=MARKS) as stream:
        assert {good, bad, end} & stream.allowed() == {good, end}
        assert {good, bad, end} & stream.allowed([good]) == {end}
    plugin.close()


@pytest.mark.parametrize(
    ("within", "says"),
    [
        ("<a>", "must be two marks"),
        (["<a>"], "must be two marks"),
        (["", "<b>"], "a mark is empty"),
        (["<a>", 5], "a mark must be a string"),
        (["x" * 65, "<b>"], "of a few bytes"),
    ],
)
def test_marks_that_make_no_sense_are_refused(plugin, within, says):
    with plugin.stream(json_schema={}, within=within) as stream, pytest.raises(InputRefused, match=says):
        stream.call()
