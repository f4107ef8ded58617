"""Chats, with OpenAI's own client."""

import asyncio
import json

import httpx
import pytest

from sandseal_host.serving.request import BATCH, REALTIME, STANDARD
from support.waiting import wait_until

openai = pytest.importorskip("openai", reason="needs the client `openai`")

HELLO = [{"role": "user", "content": "Grüß dich"}]
CALLED = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}


def ask(client, messages=HELLO, model="talker", **options):
    return client.chat.completions.create(model=model, messages=messages, **options)


def test_an_answer(client, served):
    answer = ask(client)
    assert answer.choices[0].message.content == "Grüß dich"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.object, answer.model) == ("chat.completion", "talker")
    assert answer.id.startswith("chatcmpl-")
    assert answer.system_fingerprint == f"fp_{served.host.models.get('talker').bundle_id[:16]}"
    assert answer.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 11,
        "completion_tokens": 11,
        "total_tokens": 22,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    wait_until(lambda: served.answers("talker") == {200: 1})


def test_a_stream(client, served):
    with ask(client, stream=True) as stream:
        chunks = list(stream)
        assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert "queue;dur=1.000" in stream.response.headers["server-timing"]
        assert len(stream.response.headers["sandseal-bundle"]) == 64
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "Grüß dich"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert {(chunk.id, chunk.object) for chunk in chunks} == {(chunks[0].id, "chat.completion.chunk")}
    assert all(chunk.usage is None for chunk in chunks)
    wait_until(lambda: served.answers("talker") == {200: 1})


def test_usage_at_the_end_of_a_stream(shared):
    *chunks, last = ask(shared, stream=True, stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage.total_tokens == 22
    assert all(chunk.usage is None for chunk in chunks)


def test_the_bytes_of_a_stream(served):
    body = {"model": "talker", "messages": [{"role": "user", "content": "a"}], "stream": True}
    answer = httpx.post(f"{served.url}/v1/chat/completions", json=body, headers={"Authorization": "Bearer root"})
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(event.startswith("data: ") for event in events[:-1])
    assert '"usage"' not in answer.text


def test_several_answers(client, talker):
    answer = ask(client, n=3, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.message.content for choice in answer.choices} == {"Grüß dich"}
    assert answer.usage.prompt_tokens == 11
    assert answer.usage.completion_tokens == 33
    assert [request.sampling.seed for request in talker.asked] == [7, 8, 9]
    assert len({request.id for request in talker.asked}) == 3


def test_several_answers_in_one_stream(shared):
    texts = {0: "", 1: ""}
    for chunk in ask(shared, n=2, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == {0: "Grüß dich", 1: "Grüß dich"}


def test_stop_strings_and_limits(client, talker):
    answer = ask(client, stop=["ß d", "zz"])
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Grü", "stop")
    answer = ask(client, max_tokens=2)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Gr", "length")
    assert ask(client, max_completion_tokens=1).choices[0].message.content == "G"
    assert ask(client, stop="r").choices[0].message.content == "G"
    assert talker.asked[0].max_tokens == 64 - 11


def test_everything_that_sampling_has(client, talker):
    ask(
        client,
        temperature=0.5,
        top_p=0.9,
        presence_penalty=1,
        frequency_penalty=-1,
        seed=-5,
        logit_bias={"72": -100},
        extra_body={"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "ignore_eos": True, "stop_token_ids": [3]},
    )
    (asked,) = talker.asked
    sampling = asked.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 5, 0.1)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (1, -1, 1.1)
    assert (sampling.seed, sampling.logit_bias, sampling.logprobs) == (-5, {72: -100}, None)
    assert asked.stop_ids == {3}


def test_logprobs(shared):
    choice = ask(shared, [{"role": "user", "content": "hi"}], logprobs=True, top_logprobs=2).choices[0]
    first = choice.logprobs.content[0]
    assert (first.token, first.logprob, first.bytes) == ("h", -0.5, [104])
    assert [(top.token, top.logprob) for top in first.top_logprobs] == [("h", -0.5), ("i", -1.5)]
    assert [entry.token for entry in choice.logprobs.content] == ["h", "i"]
    parts = list(ask(shared, [{"role": "user", "content": "hi"}], logprobs=True, stream=True))
    told = [entry.token for part in parts if part.choices[0].logprobs for entry in part.choices[0].logprobs.content]
    assert told == ["h", "i"]


@pytest.mark.parametrize(
    ("options", "service_class", "tier"),
    [
        ({}, STANDARD, "default"),
        ({"service_tier": "auto"}, STANDARD, "default"),
        ({"service_tier": "priority"}, REALTIME, "priority"),
        ({"service_tier": "flex"}, BATCH, "flex"),
        ({"extra_body": {"priority": 1}}, REALTIME, "priority"),
        ({"extra_body": {"priority": 0}}, STANDARD, "default"),
        ({"service_tier": "flex", "extra_body": {"priority": 1}}, REALTIME, "priority"),
    ],
)
def test_tiers_are_classes(client, talker, options, service_class, tier):
    answer = ask(client, **options)
    assert answer.service_tier == tier
    assert talker.asked[0].service_class is service_class
    assert talker.asked[0].tenant == "acme"


def test_what_other_services_are_told(shared):
    ask(
        shared,
        [{"role": "developer", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "kind"}]}, *HELLO],
        user="me", metadata={"a": "b"}, store=False, response_format={"type": "text"}, tool_choice="none",
        stream_options=None, n=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "constraints"),
    [
        ({}, {}),
        ({"response_format": {"type": "json_object"}}, {"json_schema": {}}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "null"}}}},
            {"json_schema": {"type": "null"}},
        ),
        ({"extra_body": {"banned_strings": ["seal"]}}, {"banned_strings": ["seal"]}),
    ],
)
def test_forms_are_for_the_logits_plugin(client, served, options, constraints):
    ask(client, model="held", **options)
    assert json.loads(served.host.models.get("held").asked[0].constraints) == constraints


def test_messages_become_a_prompt(shared):
    messages = [
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b", "name": "bob"},
        {"role": "assistant", "content": "c", "refusal": None, "tool_calls": [], "parsed": {"a": 1}},
        {"role": "user", "content": [{"type": "text", "text": "d"}]},
    ]
    assert ask(shared, messages).choices[0].message.content == "a|b|c|d"


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "param", "words"),
        [
            ({"messages": []}, "messages", "holds something"),
            ({"messages": [{"role": "cat", "content": "x"}]}, "messages[0].role", "'user'"),
            ({"messages": [{"role": "user"}]}, "messages[0].content", "missing"),
            ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "a string"),
            ({"messages": [{"role": "user", "content": "x", "mood": 1}]}, "messages[0].mood", "not a member"),
            (
                {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
                "messages[0].content[0].type",
                "text",
            ),
            ({"messages": [{"role": "assistant", "content": "x"}]}, None, "user's message last"),
            ({"messages": [{"role": "user", "content": "x" * 64}]}, None, "64"),
            ({"temperature": -1}, "temperature", "0 to 100"),
            ({"temperature": "hot"}, "temperature", "0 to 100"),
            ({"max_tokens": 0}, "max_tokens", "from 1"),
            ({"n": 0}, "n", "from 1 to 128"),
            ({"stop": [""]}, "stop", "empty"),
            ({"stop": 5}, "stop", "a string"),
            ({"logit_bias": {"a": 1}}, "logit_bias.a", "id of a token"),
            ({"logit_bias": {"1": 200}}, "logit_bias.1", "-100 to 100"),
            ({"top_logprobs": 2}, "top_logprobs", "logprobs"),
            ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "20"),
            ({"stream": 1}, "stream", "true or false"),
            ({"service_tier": "gold"}, "service_tier", "flex"),
            ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "knows no calls"),
            ({"messages": [*HELLO, CALLED]}, "messages[1]", "knows no calls"),
            ({"messages": [*HELLO, {"role": "tool", "tool_call_id": "1", "content": ""}]}, "messages[1]", "knows no"),
            ({"response_format": {"type": "json_object"}}, "response_format", "logits plugin"),
            ({"response_format": {"type": "xml"}}, "response_format", "json_schema"),
            ({"extra_body": {"banned_strings": ["x"]}}, "banned_strings", "logits plugin"),
            ({"extra_body": {"mirostat": 1}}, "mirostat", "not a member"),
            ({"extra_body": {"ignore_eos": 1}}, "ignore_eos", "true or false"),
            ({"model": "plain"}, "model", "chat template"),
            ({"model": "numbers"}, "model", "generates no text"),
        ],
    )
    def test_bad_requests(self, shared, options, param, words):
        with pytest.raises(openai.BadRequestError) as refusal:
            ask(shared, **{"messages": HELLO, **options})
        assert words in refusal.value.message
        assert refusal.value.param == param
        assert refusal.value.type == "invalid_request_error"
        assert refusal.value.code == ("option_invalid" if param else "request_invalid")

    def test_who_asks_for_what(self, client, served):
        with pytest.raises(openai.NotFoundError) as refusal:
            ask(client, model="nobody")
        assert refusal.value.code == "model_not_found"
        with pytest.raises(openai.AuthenticationError, match="nobody issued"):
            ask(client.with_options(api_key="stranger"))
        with pytest.raises(openai.PermissionDeniedError, match="infer"):
            ask(client.with_options(api_key="publisher"))
        with pytest.raises(openai.NotFoundError):
            ask(client.with_options(api_key="narrow"))

    def test_what_is_no_request(self, served):
        for body, status in ((b"{", 400), (b"[]", 400), (b'{"model": 5}', 400), (b"{}", 400), (b"", 400)):
            answer = httpx.post(
                f"{served.url}/v1/chat/completions", content=body, headers={"Authorization": "Bearer root"}
            )
            assert answer.status_code == status
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        answer = httpx.get(f"{served.url}/v1/chat/completions", headers={"Authorization": "Bearer root"})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert answer.json()["error"]["code"] == "method_not_allowed"

    def test_before_the_first_piece_a_stream_fails_by_status(self, client, talker, served):
        talker.breaks_at = 0
        with pytest.raises(openai.InternalServerError, match="the lane broke") as failure:
            ask(client, stream=True)
        assert failure.value.response.headers["x-should-retry"] == "false"
        wait_until(lambda: served.answers("talker") == {500: 1})

    def test_after_it_by_an_event(self, client, talker, served):
        talker.breaks_at = 3
        found = []
        chunks = (found.append(chunk.choices[0].delta.content) for chunk in ask(client, stream=True))
        with pytest.raises(openai.APIError, match="the lane broke"):
            list(chunks)
        assert "".join(filter(None, found)) == "Gr"
        wait_until(lambda: served.answers("talker") == {500: 1})

    def test_one_of_several_streams_fails(self, client, talker):
        talker.breaks_at = 3
        with pytest.raises(openai.InternalServerError):
            ask(client, n=3)
        assert all(stream.ended for stream in talker.streams)


def test_the_async_client(served):
    async def main():
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="root", max_retries=0) as client:
            answer = await ask(client)
            assert answer.choices[0].message.content == "Grüß dich"
            stream = await ask(client, stream=True)
            parts = [chunk.choices[0].delta.content async for chunk in stream]
            assert "".join(filter(None, parts)) == "Grüß dich"
            answers = await asyncio.gather(*(ask(client, n=2) for _ in range(10)))
            assert {choice.message.content for answer in answers for choice in answer.choices} == {"Grüß dich"}
            with pytest.raises(openai.NotFoundError):
                await ask(client, model="nobody")

    asyncio.run(main())


def test_receipts_are_refused(served):
    headers = {"Authorization": "Bearer root", "Sandseal-Receipt": "once"}
    answer = httpx.post(
        f"{served.url}/v1/chat/completions", json={"model": "talker", "messages": HELLO}, headers=headers
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (501, "unsupported")


def test_the_id_of_a_request_comes_back(served):
    headers = {"Authorization": "Bearer root", "X-Request-Id": "seven"}
    for stream in (False, True):
        body = {"model": "talker", "messages": HELLO, "stream": stream}
        answer = httpx.post(f"{served.url}/v1/chat/completions", content=json.dumps(body), headers=headers)
        assert answer.headers["x-request-id"] == "seven"
