"""Embeddings and the list of models, with OpenAI's own client."""

import asyncio

import pytest

openai = pytest.importorskip("openai", reason="needs the client `openai`")


def test_vectors_of_texts(client, served):
    answer = client.embeddings.create(model="embedder", input=["hello", "äh"])  # the client asks for base64
    assert [entry.embedding for entry in answer.data] == [[5.0, 104.0], [3.0, 195.0]]
    assert [entry.index for entry in answer.data] == [0, 1]
    assert answer.model == "embedder"
    assert served.answers("embedder") == {200: 1}


def test_numbers_instead_of_base64(shared):
    answer = shared.embeddings.create(model="embedder", input="hello", encoding_format="float", dimensions=2)
    assert answer.data[0].embedding == [5.0, 104.0]


def test_many_texts_keep_their_order(shared):
    answer = shared.embeddings.create(model="embedder", input=["x" * (i + 1) for i in range(300)])
    assert [entry.embedding[0] for entry in answer.data] == [float(i + 1) for i in range(300)]


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": [1, 2]}, "input"),
        ({"input": "a", "dimensions": 3}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "model": "numbers"}, "model"),
        ({"input": "a", "model": "talker"}, "model"),
        ({"input": "a", "extra_body": {"colour": 1}}, "colour"),
        ({"input": ["a"] * 2049}, "input"),
    ],
)
def test_refusals(shared, options, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        shared.embeddings.create(**{"model": "embedder", **options})
    assert refusal.value.param == param


def test_models(client, served):
    found = {model.id: model for model in client.models.list()}
    assert set(found) == {"talker", "plain", "held", "embedder"}
    assert (found["talker"].created, found["talker"].owned_by, found["talker"].object) == (
        1_700_000_000,
        "sandseal",
        "model",
    )
    assert client.models.retrieve("talker").id == "talker"
    for name in ("numbers", "nobody"):
        with pytest.raises(openai.NotFoundError) as refusal:
            client.models.retrieve(name)
        assert refusal.value.code == "model_not_found"


def test_models_are_those_that_the_token_sees(shared):
    narrow = shared.with_options(api_key="narrow")
    assert list(narrow.models.list()) == []
    with pytest.raises(openai.NotFoundError):
        narrow.models.retrieve("talker")
    with pytest.raises(openai.AuthenticationError):
        list(shared.with_options(api_key="who").models.list())


def test_a_plain_call_is_beside_them(client, served):
    import httpx

    headers = {"Authorization": "Bearer root"}
    answer = httpx.post(f"{served.url}/v1/models/embedder/call", content=b"hello", headers=headers)
    assert answer.json()["outputs"] == {"embedding": [5.0, 104.0]}


def test_the_async_client(served):
    async def main():
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="root") as client:
            answer = await client.embeddings.create(model="embedder", input="hello")
            assert answer.data[0].embedding == [5.0, 104.0]
            assert {model.id async for model in client.models.list()} == {"talker", "plain", "held", "embedder"}

    asyncio.run(main())
