from collections.abc import Iterator

import pytest

from api.double import ModelDouble, identity, manifest, spec
from api.listening import Listening
from api.talking import Talker
from sandseal_host.serving.request import Request
from sandseal_host.tensors import Tensor, unpack_bytes

openai = pytest.importorskip("openai", reason="needs the client `openai`")


def embedder() -> ModelDouble:
    """A text into its length and its first byte."""
    import numpy as np

    def run(request: Request) -> tuple[Tensor, ...]:
        (text,) = unpack_bytes(request.inputs[0])
        made = np.array([[len(text), text[0]]], np.float32)
        return (Tensor("embedding", spec("e", "FP32").dtype, made.shape, made),)

    return ModelDouble(manifest("embedder", [spec("text", "BYTES", 1)], [spec("embedding", "FP32", "batch", 2)]), run)


def serving(talker: Talker) -> Listening:
    plain = Talker("plain", chat_template=None, defaults={"max_tokens": 3})
    return Listening(talker, plain, Talker("held", logits=True), embedder(), identity("numbers", "FP32", "batch", 4))


def client_of(served: Listening) -> "openai.OpenAI":
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key="root", max_retries=0)


@pytest.fixture
def talker() -> Talker:
    return Talker()


@pytest.fixture
def served(talker: Talker) -> Iterator[Listening]:
    with serving(talker) as served:
        yield served


@pytest.fixture
def client(served: Listening) -> Iterator["openai.OpenAI"]:
    with client_of(served) as client:
        yield client


@pytest.fixture(scope="module")
def shared() -> Iterator["openai.OpenAI"]:
    """A client for tests that look at nothing but its answers."""
    with serving(Talker()) as served, client_of(served) as client:
        yield client
