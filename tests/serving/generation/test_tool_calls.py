"""Calls in answers, in the forms of the models that are imported, however the text is cut."""

import json

import pytest

from sandseal_host.serving.generation.tool_calls import HERMES, LLAMA, MISTRAL, CallReader, ToolCall, call_form

NAMES = ("add", "look_up")
ADD = ToolCall("add", '{"a": 1, "b": [2]}')
LOOK_UP = ToolCall("look_up", "{}")
ADD_TEXT = '{"name": "add", "arguments": {"a": 1, "b": [2]}}'
LOOK_UP_TEXT = '{"name": "look_up", "arguments": {}}'


def read(form, text, *, size=None, **options):
    """The text and the calls of an answer that comes in pieces of a size."""
    reader = CallReader(form, NAMES, **options)
    found, size = [], size or len(text) or 1
    for at in range(0, len(text), size):
        found += reader.push(text[at : at + size])
    found += reader.finish()
    calls = [part for part in found if isinstance(part, ToolCall)]
    assert reader.calls == len(calls)
    return "".join([part for part in found if isinstance(part, str)]), calls


UNKNOWN_TEXT = '<tool_call>{"name": "delete", "arguments": {}}</tool_call>'

ANSWERS = [
    (HERMES, "Hello there.", "Hello there.", []),
    (HERMES, "a < b <tool", "a < b <tool", []),
    (HERMES, f"<tool_call>\n{ADD_TEXT}\n</tool_call>", "", [ADD]),
    (HERMES, f"Let me see.\n<tool_call>{ADD_TEXT}</tool_call>\n", "Let me see.", [ADD]),
    (HERMES, f"<tool_call>{ADD_TEXT}</tool_call>\n<tool_call>{LOOK_UP_TEXT}</tool_call>", "", [ADD, LOOK_UP]),
    (HERMES, f"<tool_call>{ADD_TEXT}", "", [ADD]),
    (HERMES, f"<tool_call>{ADD_TEXT}</tool_call> Done.", " Done.", [ADD]),
    (HERMES, f"Well.\n{UNKNOWN_TEXT}\n<tool_call>{ADD_TEXT}</tool_call>", f"Well.\n{UNKNOWN_TEXT}", [ADD]),
    (HERMES, "Between <tool_call> and </tool_call>: a", "Between <tool_call> and </tool_call>: a", []),
    (MISTRAL, f"[TOOL_CALLS] [{ADD_TEXT}, {LOOK_UP_TEXT}]", "", [ADD, LOOK_UP]),
    (MISTRAL, f"Well. [TOOL_CALLS][{ADD_TEXT}]", "Well.", [ADD]),
    (MISTRAL, '[TOOL_CALLS]add[ARGS]{"a": 1, "b": [2]}[TOOL_CALLS]look_up[CALL_ID]x1[ARGS]{}', "", [ADD, LOOK_UP]),
    (MISTRAL, "[TOOL_CALLS]look_up{}", "", [LOOK_UP]),
    (LLAMA, ADD_TEXT.replace("arguments", "parameters"), "", [ADD]),
    (LLAMA, f"  {ADD_TEXT}; {LOOK_UP_TEXT}", "", [ADD, LOOK_UP]),
    (LLAMA, f"<|python_tag|>{ADD_TEXT}", "", [ADD]),
    (LLAMA, "The set {1} is small.", "The set {1} is small.", []),
    (LLAMA, '{"colour": "red"}', '{"colour": "red"}', []),
]


@pytest.mark.parametrize("size", [None, 1, 3])
@pytest.mark.parametrize(("form", "text", "words", "calls"), ANSWERS)
def test_answers(form, text, words, calls, size):
    assert read(form, text, size=size) == (words, calls)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>add(1, 2)</tool_call>",
        "<tool_call></tool_call>",
        '<tool_call>{"name": "delete", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "add", "arguments": "{}"}</tool_call>',
        '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": NaN}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": 1e999}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": ',
        '<tool_call>{"name": "add", "arguments": ' + '{"a": ' * 5000,
        "<tool_call>[" + f"{ADD_TEXT}, 7]</tool_call>",
    ],
)
def test_what_is_no_call_is_text(text):
    assert read(HERMES, text) == (text, [])


def test_the_closing_may_stand_in_an_argument():
    text = json.dumps({"name": "add", "arguments": {"a": "</tool_call> <tool_call>"}})
    assert read(HERMES, f"<tool_call>{text}</tool_call>", size=2)[1] == [
        ToolCall("add", '{"a": "</tool_call> <tool_call>"}')
    ]


def test_closings_that_close_nothing_are_looked_at_once():
    argument = '\\"</tool_call>' * 500
    text = json.dumps({"name": "add", "arguments": {"a": argument}})
    (call,) = read(HERMES, f"<tool_call>{text}</tool_call>", size=3)[1]
    assert json.loads(call.arguments) == {"a": argument}


def test_characters_beyond_ascii_stay_what_they_are():
    (call,) = read(HERMES, '<tool_call>{"name": "add", "arguments": {"a": "Grüß \\ud800"}}</tool_call>')[1]
    assert json.loads(call.arguments) == {"a": "Grüß \ud800"}
    assert call.arguments.encode()


def test_no_more_calls_than_are_wanted():
    text = f"<tool_call>{ADD_TEXT}</tool_call><tool_call>{LOOK_UP_TEXT}</tool_call>"
    assert read(HERMES, text, most=1) == ("", [ADD])
    assert read(MISTRAL, f"[TOOL_CALLS][{ADD_TEXT}, {LOOK_UP_TEXT}]", most=1) == ("", [ADD])


@pytest.mark.parametrize(("form", "text"), [(HERMES, ADD_TEXT), (MISTRAL, f"[{ADD_TEXT}]"), (LLAMA, ADD_TEXT)])
def test_an_answer_that_must_be_a_call_has_no_mark(form, text):
    assert read(form, text, size=4, forced=True) == ("", [ADD])


def test_text_is_given_as_soon_as_it_is_certain():
    reader = CallReader(HERMES, NAMES)
    assert [reader.push(part) for part in ("Yes, ", "1 <", " 2 <tool", "_box> ", "end")] == [
        ["Yes,"], [" 1"], [" < 2"], [" <tool_box>"], [" end"],
    ]  # fmt: skip
    assert reader.finish() == []


def test_text_that_is_no_call_does_not_wait_for_the_end():
    reader = CallReader(HERMES, NAMES)
    assert reader.push(f"{UNKNOWN_TEXT} and on") == [UNKNOWN_TEXT, " and on"]


def test_a_bare_call_may_follow_a_piece_without_text():
    reader = CallReader(LLAMA, NAMES)
    assert reader.push("") + reader.push(ADD_TEXT) + reader.finish() == [ADD]


def test_white_space_alone_is_an_answer():
    assert read(HERMES, " \n") == (" \n", [])


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{% if tools %}<tools>{{ tools }}</tools> use <tool_call>{% endif %}", HERMES),
        ("{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}{% endif %}[TOOL_CALLS]", MISTRAL),
        ("{{ tools }}{% if message.tool_calls %}ipython {{- '\"parameters\": ' }}{% endif %}", LLAMA),
        ("{{ messages[0].content }} <tool_call>", None),
        ("{% if tools %}<tool_call><function=name></function></tool_call>{% endif %}", None),
        ("{% if tools %}{{ tools }}{% endif %}", None),
        ("", None),
    ],
)
def test_the_template_says_which_form(template, form):
    assert call_form(template) is form
