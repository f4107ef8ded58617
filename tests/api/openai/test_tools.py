"""Functions that chats offer, and calls of them, with OpenAI's own client."""

import json
from collections.abc import Iterator

import pytest

from api.listening import Listening
from api.talking import Talker
from sandseal_host.serving.generation.tool_calls import HERMES, LLAMA, MISTRAL

openai = pytest.importorskip("openai", reason="needs the client `openai`")

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "now", "parameters": CITY}}
CLOCK = {"type": "function", "function": {"name": "clock"}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
NAMED = {"type": "function", "function": {"name": "clock"}}


def serving() -> Listening:
    """A model that can call, and one whose bundle can make it."""
    caller, bound = (Talker(name, calls=HERMES, context=2048, logits=name == "bound") for name in ("caller", "bound"))
    return Listening(caller, bound)


@pytest.fixture
def served() -> Iterator[Listening]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def shared() -> Iterator["openai.OpenAI"]:
    """A client for tests that look at nothing but its answers."""
    with serving() as served:
        yield openai.OpenAI(base_url=f"{served.url}/v1", api_key="root", max_retries=0)


def ask(client, content=CALL, model="caller", **options):
    """A chat whose answer is the content of its message."""
    options = {"tools": [WEATHER, CLOCK], "messages": [{"role": "user", "content": content}], **options}
    return client.chat.completions.create(model=model, **options)


def test_a_call(client, served):
    answer = ask(client, f"Let me see. {CALL}").choices[0]
    assert answer.finish_reason == "tool_calls"
    assert answer.message.content == "Let me see."
    (call,) = answer.message.tool_calls
    assert (call.type, call.function.name, json.loads(call.function.arguments)) == (
        "function", "weather", {"city": "Köln"},
    )  # fmt: skip
    assert len(call.id) == 9
    assert call.id.isalnum()
    (asked,) = served.host.models.get("caller").text.asked
    assert asked["tools"] == (
        WEATHER,
        {
            "type": "function",
            "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}},
        },
    )
    assert asked["opening"] == ""


def test_calls_alone_are_no_content(shared):
    message = ask(shared).choices[0].message
    assert message.content is None
    assert len(message.tool_calls) == 1


def test_an_answer_without_calls(shared):
    answer = ask(shared, "It rains.").choices[0]
    assert (answer.message.content, answer.message.tool_calls, answer.finish_reason) == ("It rains.", None, "stop")


def test_a_stream(shared):
    text = f'Look: {CALL}\n<tool_call>{{"name": "clock", "arguments": {{}}}}</tool_call>'
    parts = [part.choices[0] for part in ask(shared, text, stream=True)]
    assert "".join(part.delta.content or "" for part in parts) == "Look:"
    calls = [call for part in parts for call in part.delta.tool_calls or ()]
    assert [(call.index, call.type, call.function.name) for call in calls] == [
        (0, "function", "weather"), (1, "function", "clock"),
    ]  # fmt: skip
    assert [json.loads(call.function.arguments) for call in calls] == [{"city": "Köln"}, {}]
    assert len({call.id for call in calls}) == 2
    assert [part.finish_reason for part in parts] == [None] * (len(parts) - 1) + ["tool_calls"]


def test_the_clients_own_stream_helper_puts_it_together(shared):
    with shared.chat.completions.stream(
        model="caller", messages=[{"role": "user", "content": CALL}], tools=[WEATHER]
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.name == "weather"
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Köln"}


def test_several_answers_have_calls_of_their_own(shared):
    choices = ask(shared, n=2).choices
    assert len({choice.message.tool_calls[0].id for choice in choices}) == 2


def test_one_call_at_a_time(shared):
    assert len(ask(shared, CALL + CALL).choices[0].message.tool_calls) == 2
    assert len(ask(shared, CALL + CALL, parallel_tool_calls=False).choices[0].message.tool_calls) == 1


def test_no_calls_are_wanted(client, served):
    answer = ask(client, tool_choice="none").choices[0]
    assert (answer.message.content, answer.message.tool_calls, answer.finish_reason) == (CALL, None, "stop")
    assert "tools" not in served.host.models.get("caller").text.asked[0]


def test_a_cut_off_call_is_text(shared):
    answer = ask(shared, max_tokens=30).choices[0]
    assert (answer.message.content, answer.finish_reason) == (CALL[:30], "length")


def test_history_is_what_templates_read(client, served):
    messages = [
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Köln"}'}},
                {"id": "2", "type": "function", "function": {"name": "clock", "arguments": ""}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "rain"}]},
        {"role": "tool", "tool_call_id": "2", "content": "noon"},
    ]
    ask(client, messages=messages)
    _, assistant, *results = served.host.models.get("caller").text.asked[0]["messages"]
    assert [call["function"] for call in assistant["tool_calls"]] == [
        {"name": "weather", "arguments": {"city": "Köln"}},
        {"name": "clock", "arguments": {}},
    ]
    assert assistant["content"] == ""
    assert results == [
        {"role": "tool", "content": "rain", "tool_call_id": "1", "name": "weather"},
        {"role": "tool", "content": "noon", "tool_call_id": "2", "name": "clock"},
    ]


def test_an_answer_goes_back_as_it_came(shared):
    message = ask(shared).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}
    assert ask(shared, messages=[{"role": "user", "content": "?"}, message, result]).choices[0].message.content


class TestForced:
    ANSWER = '{"name": "clock", "arguments": {}}'

    def test_an_answer_must_be_a_call(self, client, served):
        answer = ask(client, self.ANSWER, model="bound", tool_choice="required").choices[0]
        assert answer.message.tool_calls[0].function.name == "clock"
        assert answer.finish_reason == "tool_calls"
        model = served.host.models.get("bound")
        assert model.text.asked[0]["opening"] == "<tool_call>\n"
        schema = json.loads(model.asked[0].constraints)["json_schema"]
        assert [each["properties"]["name"] for each in schema["anyOf"]] == [{"const": "weather"}, {"const": "clock"}]
        assert schema["anyOf"][0]["properties"]["arguments"] == {"$ref": "#/$defs/0"}
        assert schema["$defs"]["0"] == CITY

    def test_a_call_of_one_function(self, client, served):
        answer = ask(client, self.ANSWER, model="bound", tool_choice=NAMED).choices[0]
        assert answer.message.tool_calls[0].function.name == "clock"
        model = served.host.models.get("bound")
        assert [tool["function"]["name"] for tool in model.text.asked[0]["tools"]] == ["clock"]
        assert len(json.loads(model.asked[0].constraints)["json_schema"]["anyOf"]) == 1

    def test_streams(self, shared):
        stream = ask(shared, self.ANSWER, model="bound", tool_choice="required", stream=True)
        calls = [call for part in stream for call in part.choices[0].delta.tool_calls or ()]
        assert [call.function.name for call in calls] == ["clock"]

    def test_a_strict_function(self, shared):
        tool = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
        text = '{"name": "weather", "arguments": {"city": "Ulm"}}'
        answer = ask(shared, text, model="bound", tools=[tool], tool_choice="required")
        assert json.loads(answer.choices[0].message.tool_calls[0].function.arguments) == {"city": "Ulm"}

    def test_a_strict_function_that_the_model_may_call(self, client, served):
        tool = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
        assert ask(client, model="bound", tools=[tool, CLOCK]).choices[0].message.tool_calls
        model = served.host.models.get("bound")
        held = json.loads(model.asked[0].constraints)
        assert held["within"] == ["<tool_call>", "</tool_call>"]
        assert held["json_schema"]["$defs"] == {"0": CITY, "1": {"type": "object"}}
        model.text.calls = LLAMA
        with pytest.raises(openai.BadRequestError, match="allows only with a tool_choice"):
            ask(client, model="bound", tools=[tool])

    @pytest.mark.parametrize(("form", "member"), [(LLAMA, "parameters"), (MISTRAL, "arguments")])
    def test_schemas_are_in_the_models_form(self, client, served, form, member):
        model = served.host.models.get("bound")
        model.text.calls = form
        parameters = {"$defs": {"c": {"type": "string"}}, "properties": {"c": {"$ref": "#/$defs/c"}}, "type": "object"}
        tool = {"type": "function", "function": {"name": "clock", "parameters": parameters}}
        text = json.dumps([{"name": "clock", member: {}}] if form is MISTRAL else {"name": "clock", member: {}})
        answer = ask(client, text, model="bound", tools=[tool], tool_choice="required")
        assert answer.choices[0].message.tool_calls[0].function.name == "clock"
        schema = json.loads(model.asked[0].constraints)["json_schema"]
        call = (schema["items"] if form is MISTRAL else schema)["anyOf"][0]
        assert call["required"] == ["name", member]
        found = call["properties"][member]
        while "$ref" in found:
            target = schema
            for name in found["$ref"][2:].split("/"):
                target = target[name]
            found = target.get("properties", {}).get("c", target)
        assert found == {"type": "string"}


@pytest.mark.parametrize(
    ("options", "param", "words"),
    [
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type", "function"),
        ({"tools": [{"type": "function", "function": {"name": "no spaces"}}]}, "tools[0].function.name", "a-z"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "missing"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": 5}}]},
            "tools[0].function.parameters",
            "JSON schema",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "kind": 5}}]},
            "tools[0].function.kind",
            "not a member",
        ),
        ({"tools": [WEATHER, WEATHER]}, "tools", "twice"),
        ({"tools": [{"type": "function", "function": {"name": f"f{i}"}} for i in range(129)]}, "tools", "128"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]},
            "tools",
            "logits plugin",
        ),
        ({"tool_choice": "perhaps"}, "tool_choice", "required"),
        ({"tool_choice": "required"}, "tool_choice", "logits plugin"),
        ({"tool_choice": NAMED}, "tool_choice", "logits plugin"),
        ({"model": "bound", "tool_choice": {"type": "function", "function": {"name": "x"}}},
         "tool_choice.function.name", "one of the tools"),
        ({"model": "bound", "tool_choice": {"type": "allowed_tools"}}, "tool_choice.type", "function"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice", "no tools"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls", "true or false"),
        ({"model": "bound", "response_format": {"type": "json_object"}}, "response_format", "beside tools"),
        ({"functions": [{"name": "f"}]}, "functions", "tools"),
    ],
)  # fmt: skip
def test_refusals(shared, options, param, words):
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(shared, **{"extra_body": {"functions": options.pop("functions")}} if "functions" in options else options)
    assert refusal.value.param == param
    assert words in refusal.value.message


@pytest.mark.parametrize(
    ("message", "param", "words"),
    [
        ({"role": "tool", "content": "x"}, "messages[1].tool_call_id", "missing"),
        ({"role": "user", "content": "x", "tool_calls": [{}]}, "messages[1].tool_calls", "not a member"),
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, "messages[1].tool_calls[0].function", "missing"),
        (
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}]},
            "messages[1].tool_calls[0].function.arguments",
            "JSON",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "[]"}}]},
            "messages[1].tool_calls[0].function.arguments",
            "object",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a":' * 900}}]},
            "messages[1].tool_calls[0].function.arguments",
            "nests deeper than 64 levels",
        ),
    ],
)
def test_messages_that_are_refused(shared, message, param, words):
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(shared, messages=[{"role": "user", "content": "?"}, message])
    assert refusal.value.param == param
    assert words in refusal.value.message
