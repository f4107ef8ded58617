"""A model that generates text, in a real host: one answer by every way, streams that end as they should."""

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from support.bundles import trust_text
from support.generation import generating_seal
from support.hosts import RunningHost, running_host
from support.keys import ed25519_key
from support.waiting import wait_until

openai = pytest.importorskip("openai", reason="needs the client `openai`")

pytestmark = pytest.mark.slow

NAME = "acme.tiny-talk"
HELLO = [{"role": "user", "content": "hello"}]
PROMPT = "<|user|>hello<|end|><|assistant|>"
GREEDY = {"temperature": 0, "max_tokens": 24}


def serving(folder: Path, **settings: str) -> Any:
    trust = folder / "trust.toml"
    trust.write_text(trust_text({"alice": ed25519_key("alice")}, {"domains": ["", "com.microsoft"]}))
    return running_host(trust, folder / "data", {"SANDSEAL_SLOTS": "4", **settings})


def push(host: RunningHost, folder: Path) -> None:
    (folder / "tiny.seal").write_bytes(generating_seal([ed25519_key("alice")], NAME))
    with host.client() as client:
        client.push(folder / "tiny.seal")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    folder = tmp_path_factory.mktemp("generation")
    with serving(folder, SANDSEAL_GRPC_PORT="0") as host:
        push(host, folder)
        yield host


@pytest.fixture
def client(host: RunningHost) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{host.url}/v1", api_key=host.token, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def answer(host: RunningHost) -> str:
    """What the model says to `PROMPT`."""
    with host.client() as client:
        return client.generate(NAME, PROMPT, parameters=GREEDY)["text_output"]


def test_every_way_gives_the_same_text(host, client, answer):
    assert answer
    chat = client.chat.completions.create(model=NAME, messages=HELLO, **GREEDY)
    assert chat.choices[0].message.content == answer
    assert chat.usage.completion_tokens == 24
    parts = client.chat.completions.create(model=NAME, messages=HELLO, stream=True, **GREEDY)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == answer
    assert client.completions.create(model=NAME, prompt=PROMPT, **GREEDY).choices[0].text == answer
    with host.client() as own:
        pieces = [piece["text_output"] for piece in own.generate_stream(NAME, PROMPT, parameters=GREEDY)]
        assert len(pieces) > 1
        assert "".join(pieces) == answer
        outputs = own.infer(NAME, {"text_input": np.array([PROMPT], object)}, parameters=GREEDY)
        assert outputs["text_output"].tolist() == [answer.encode()]


def test_it_is_described_as_every_model_is(host, answer):
    headers = {"Authorization": f"Bearer {host.token}"}
    for path in (f"v2/models/{NAME}", f"v2/models/{NAME}/config", f"v2/models/{NAME}/stats", f"v1/models/{NAME}/queue"):
        assert httpx.get(f"{host.url}/{path}", headers=headers).status_code == 200
    (stats,) = httpx.get(f"{host.url}/v2/models/{NAME}/stats", headers=headers).json()["model_stats"]
    assert stats["inference_count"] > 0


def test_grpc_gives_the_same_text(host, answer):
    triton = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[grpc]")
    port = re.search(r"gRPC on port (\d+)", host.log.read_text())[1]
    tensor = triton.InferInput("text_input", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([PROMPT.encode()], object))
    found, ended = [], threading.Event()

    def take(result: Any, error: Any) -> None:
        assert error is None
        found.append(result.as_numpy("text_output")[0].decode())
        if result.get_response().parameters["triton_final_response"].bool_param:
            ended.set()

    with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
        client.start_stream(take, headers={"authorization": f"Bearer {host.token}"})
        client.async_stream_infer(NAME, [tensor], parameters={"temperature": 0.0, "max_tokens": 24})
        assert ended.wait(60)
        client.stop_stream()
    assert "".join(found) == answer
    assert len(found) > 1


def test_many_at_once_get_what_each_gets_alone(host, answer):
    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=f"{host.url}/v1", api_key=host.token) as client:

            async def ask(i: int) -> str:
                tier = ("flex", "default", "priority")[i % 3]
                stream = await client.chat.completions.create(
                    model=NAME, messages=HELLO, stream=True, service_tier=tier, **GREEDY
                )
                return "".join([part.choices[0].delta.content or "" async for part in stream])

            assert set(await asyncio.gather(*(ask(i) for i in range(24)))) == {answer}

    asyncio.run(main())


def test_seeds_make_answers_again(client):
    options = {"model": NAME, "messages": HELLO, "n": 3, "seed": 5, "max_tokens": 16}
    first, second = (client.chat.completions.create(**options) for _ in range(2))
    texts = [choice.message.content for choice in first.choices]
    assert [choice.message.content for choice in second.choices] == texts
    assert len(set(texts)) > 1


def test_stop_strings_and_logprobs(client, answer):
    stopped = client.chat.completions.create(model=NAME, messages=HELLO, stop=answer[3:5], **GREEDY)
    assert stopped.choices[0].message.content == answer[: answer.index(answer[3:5])]
    assert stopped.choices[0].finish_reason == "stop"
    told = client.chat.completions.create(model=NAME, messages=HELLO, logprobs=True, top_logprobs=2, **GREEDY)
    content = told.choices[0].logprobs.content
    assert len(content) == 24
    assert all(entry.logprob == entry.top_logprobs[0].logprob <= 0 for entry in content)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"messages": [{"role": "user", "content": "long " * 300}]}, openai.BadRequestError),
        ({"messages": HELLO, "logit_bias": {"300": 1}}, openai.BadRequestError),
        ({"messages": HELLO, "temperature": -1}, openai.BadRequestError),
        ({"messages": HELLO, "stop": ["x" * 9000]}, openai.BadRequestError),
    ],
    ids=["too long a prompt", "no such token", "cold", "too long a stop string"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_refusals(client, options, kind, stream):
    with pytest.raises(kind):
        client.chat.completions.create(model=NAME, stream=stream, **options)


def in_flight(host: RunningHost) -> float:
    text = httpx.get(f"{host.url}/metrics", headers={"Authorization": f"Bearer {host.token}"}).text
    return float(re.search(r"^sandseal_model_in_flight\{[^}]*\} (\S+)", text, re.MULTILINE)[1])


def test_what_is_measured(host, client, answer):
    with client.chat.completions.create(model=NAME, messages=HELLO, stream=True, **GREEDY) as stream:
        assert "prefill;dur=" in stream.response.headers["server-timing"]
        list(stream)
    headers = {"Authorization": f"Bearer {host.token}"}
    text = httpx.get(f"{host.url}/metrics", headers=headers).text
    for name in (
        "generation_tokens_first_s_bucket", "generation_tokens_gap_s_bucket", "generation_tokens_tokens_total",
        "generation_tokens_prompt_tokens_total", "generation_slots", "generation_slot_bytes", "generation_kv_bytes",
        "generation_paused_bytes", "generation_sequences_pauses_total", "generation_sequences_decoding",
        "generation_prefixes_hits_total", "generation_prefixes_nbytes", "generation_tokens_recomputed_total",
        "text_calls_total", "text_waiting", "text_restarts_total",
    ):  # fmt: skip
        assert re.search(rf"^sandseal_model_{name}{{.*{NAME}", text, re.MULTILINE), name
    count, met = (
        float(re.search(rf'^sandseal_slo_{name}_total{{class="standard".* (\S+)$', text, re.MULTILINE)[1])
        for name in ("requests", "met")
    )
    assert 0 < met <= count


def test_who_leaves_frees_the_slot(host, client, answer):
    streams = [
        client.chat.completions.create(
            model=NAME, messages=HELLO, stream=True, temperature=0, max_tokens=200, extra_body={"ignore_eos": True}
        )
        for _ in range(6)
    ]
    for stream in streams:
        next(iter(stream))
        stream.close()
    wait_until(lambda: in_flight(host) == 0)
    assert client.chat.completions.create(model=NAME, messages=HELLO, **GREEDY).choices[0].message.content == answer


def test_a_stream_ends_before_the_host_does(tmp_path):
    with serving(tmp_path) as host:
        push(host, tmp_path)
        with openai.OpenAI(base_url=f"{host.url}/v1", api_key=host.token, max_retries=0) as client:
            stream = client.chat.completions.create(
                model=NAME, messages=HELLO, stream=True, max_tokens=200, extra_body={"ignore_eos": True}
            )
            next(iter(stream))
            host.process.terminate()
            *_, last = stream
            assert last.choices[0].finish_reason == "length"
        assert host.process.wait(120) == 0
