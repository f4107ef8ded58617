"""Plain completions, with OpenAI's own client."""

import pytest

openai = pytest.importorskip("openai", reason="needs the client `openai`")


def ask(client, prompt="once", model="talker", **options):
    return client.completions.create(model=model, prompt=prompt, **options)


def test_an_answer(shared):
    answer = ask(shared)
    assert (answer.object, answer.choices[0].text, answer.choices[0].finish_reason) == (
        "text_completion",
        "once",
        "stop",
    )
    assert answer.id.startswith("cmpl-")
    assert answer.usage.total_tokens == 8


def test_a_stream(shared):
    *parts, last = ask(shared, stream=True, stream_options={"include_usage": True})
    assert "".join(part.choices[0].text for part in parts) == "once"
    assert parts[-1].choices[0].finish_reason == "stop"
    assert last.usage.completion_tokens == 4


def test_the_limit_is_the_bundle_s_or_sixteen(client, talker):
    assert ask(client, "x" * 30).usage.completion_tokens == 16
    assert ask(client, "x" * 30, "plain").usage.completion_tokens == 3
    assert ask(client, "x" * 30, max_tokens=20).usage.completion_tokens == 20


@pytest.mark.parametrize("prompt", [["ab", "cd"], [[97, 98], [99, 100]]])
def test_several_prompts(shared, prompt):
    answer = ask(shared, prompt, n=2)
    assert [(choice.index, choice.text) for choice in answer.choices] == [(0, "ab"), (1, "ab"), (2, "cd"), (3, "cd")]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, 8)


def test_token_ids(shared):
    assert ask(shared, [104, 105]).choices[0].text == "hi"


def test_logprobs(shared):
    for parts in ([ask(shared, "hi", logprobs=2)], list(ask(shared, "hi", logprobs=2, stream=True))):
        found = [part.choices[0].logprobs for part in parts if part.choices[0].logprobs]
        assert [token for entry in found for token in entry.tokens] == ["h", "i"]
        assert [offset for entry in found for offset in entry.text_offset] == [0, 1]
        assert found[0].token_logprobs[0] == -0.5
        assert found[0].top_logprobs[0] == {"h": -0.5, "i": -1.5}


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"prompt": 5}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": ["a", 5]}, "prompt"),
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": 21}, "logprobs"),
        ({"prompt": ["a"] * 129}, "prompt"),  # before any of them is looked at
        ({"prompt": ["a"] * 100, "n": 2}, None),
    ],
)
def test_refusals(shared, options, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(shared, **options)
    assert refusal.value.param == param
