"""A bundle whose logits plugin holds answers to JSON schemas, in a real host with sandbox workers."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandseal_sdk.build import build_plugin
from support.bundles import trust_text
from support.generation import generating_seal
from support.hosts import RunningHost, running_host
from support.keys import ed25519_key
from support.tokenizer_files import TOOL_TEMPLATE

pytestmark = pytest.mark.slow

NAME = "acme.tiny-talk"
PLUGIN = Path(__file__).resolve().parents[2] / "plugins" / "json-schema-logits"
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "words": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}},
    "required": ["ok", "words"],
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    folder = tmp_path_factory.mktemp("constrained")
    trust = folder / "trust.toml"
    rule = {"domains": ["", "com.microsoft"], "imports": ["asset"]}
    trust.write_text(trust_text({"alice": ed25519_key("alice")}, rule))
    bundle = generating_seal([ed25519_key("alice")], NAME, logits=build_plugin(PLUGIN), template=TOOL_TEMPLATE)
    (folder / "tiny.seal").write_bytes(bundle)
    with running_host(trust, folder / "data", {"SANDSEAL_SLOTS": "4"}) as host:
        with host.client() as client:
            client.push(folder / "tiny.seal")
        yield host


def ask(host: RunningHost, **options: object) -> httpx.Response:
    body = {"model": NAME, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 120, **options}
    headers = {"authorization": f"Bearer {host.token}"}
    return httpx.post(f"{host.url}/v1/chat/completions", json=body, headers=headers, timeout=60)


def answer(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    text: str = response.json()["choices"][0]["message"]["content"]
    return text


def test_answers_keep_to_the_schema_beside_free_ones(host: RunningHost) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA}}
    free = answer(ask(host, max_tokens=20, temperature=0))
    with ThreadPoolExecutor(6) as pool:
        bound = [pool.submit(ask, host, response_format=wanted, seed=seed) for seed in range(5)]
        beside = pool.submit(ask, host, max_tokens=20, temperature=0)
        for found in (json.loads(answer(future.result())) for future in bound):
            assert isinstance(found["ok"], bool)
            assert set(found["words"]) <= {"a", "b"}
        assert answer(beside.result()) == free


FLAGS = {"$defs": {"flag": {"type": "boolean"}}, "type": "object", "properties": {"on": {"$ref": "#/$defs/flag"}}}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "switch", "parameters": {**FLAGS, "required": ["on"]}}},
    {"type": "function", "function": {"name": "wait"}},
]


@pytest.fixture
def client(host: RunningHost) -> Iterator[Any]:
    openai = pytest.importorskip("openai", reason="needs the client `openai`")
    with openai.OpenAI(base_url=f"{host.url}/v1", api_key=host.token, max_retries=0) as client:
        yield client


def chat(client: Any, **options: Any) -> Any:
    options = {"messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **options}
    return client.chat.completions.create(model=NAME, max_tokens=100, seed=3, **options)


def test_the_model_is_made_to_call(client: Any) -> None:
    choice = chat(client, tool_choice={"type": "function", "function": {"name": "switch"}}).choices[0]
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert isinstance(json.loads(call.function.arguments)["on"], bool)
    result = {"role": "tool", "tool_call_id": call.id, "content": "done"}
    history = [{"role": "user", "content": "hi"}, choice.message, result]
    assert chat(client, messages=history, tool_choice="none").choices[0].message.tool_calls is None


def test_it_is_made_to_call_one_of_them_in_a_stream(client: Any) -> None:
    parts = [part.choices[0] for part in chat(client, tool_choice="required", stream=True)]
    (call,) = [call for part in parts for call in part.delta.tool_calls or ()]
    assert call.function.name in ("switch", "wait")
    assert parts[-1].finish_reason == "tool_calls"
    assert not any(part.delta.content for part in parts)


def test_what_it_says_of_itself_is_text_or_calls(client: Any) -> None:
    strict = {"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}
    message = chat(client, tools=[strict], temperature=0).choices[0].message
    assert message.content or message.tool_calls


def test_a_schema_that_is_refused(host: RunningHost) -> None:
    schema = {"type": "string", "pattern": "a+"}
    refused = ask(host, response_format={"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}})
    assert refused.status_code == 422 or refused.status_code == 400
    assert "keyword that is not supported" in refused.json()["error"]["message"]
