"""A bundle that generates text, from its archive to its stream and back to free memory."""

import asyncio
import io
from dataclasses import replace

import pytest

from sandseal_host.errors import ModelInvalid, NotReady, Revoked, UnsupportedRequest
from sandseal_host.loader import Loader
from sandseal_host.observe.metrics import HostMetrics
from sandseal_host.settings import Settings
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.names import MANIFEST
from support.bundles import members
from support.decoders import VOCAB
from support.generation import alone, generating_seal, request, tokens_of
from support.keys import ed25519_key
from support.living_host import living_host
from support.serving import request as inference
from support.tokenizer_files import END

pytestmark = pytest.mark.slow

NAME = "acme.writer"


@pytest.fixture
def serving(tmp_path):
    """Runs a test's body with a host that serves the bundle."""

    def play(body) -> None:
        async def within() -> None:
            async with living_host(tmp_path, slots=2) as host:
                archive = io.BytesIO(generating_seal([ed25519_key("alice")], NAME))
                accepted = await asyncio.to_thread(host.host._registry.accept, archive, lambda _: None)
                await asyncio.to_thread(host.models.take_in, accepted)
                await body(host, accepted)

        asyncio.run(asyncio.wait_for(within(), 60))

    return play


def test_it_serves_text_and_gives_everything_back(serving):
    async def body(host, accepted):
        model = host.models.get(NAME, None)
        with model.hold():
            prompt = tuple(await model.text.encode("Once upon a time", inference(8)))
            chat = await model.text.chat([{"role": "user", "content": "Hello"}], inference(9))
        assert chat[-1] != prompt[-1]
        assert await tokens_of(model.generate(request(1, prompt))) == alone(prompt, 8)
        statistics = model.statistics()
        assert (statistics.lane, statistics.generation.slots, statistics.in_flight) == (None, 2, 0)
        assert (model.served().requests, model.served().rows) == (1, 8)
        with pytest.raises(UnsupportedRequest, match="generates text"):
            await model.infer(inference(1))
        assert list(host.host._loader.ledger.session_statistics())
        metrics = HostMetrics()
        metrics.add("sandseal_model", lambda: [({"model": NAME}, model.statistics())])
        metrics.add("sandseal_session", host.host._loader.ledger.session_statistics)
        rendered = metrics.render().decode()
        for name in (
            "generation_tokens_first_s_bucket",
            "generation_sequences_waiting",
            "generation_kv_bytes",
            "text_calls_total",
        ):
            assert f"sandseal_model_{name}{{" in rendered
        assert "sandseal_session_slot_bytes{" in rendered
        await host.live.unload(NAME)
        with pytest.raises(NotReady):
            model.generate(request(2))
        assert not list(host.host._loader.ledger.session_statistics())

    serving(body)


def test_revoking_it_ends_its_streams(serving):
    async def body(host, accepted):
        stream = host.models.get(NAME, None).generate(request(1, max_tokens=240))
        await host.revoke(accepted)
        with pytest.raises(Revoked):
            await tokens_of(stream)
        await host.live.settled(NAME)

    serving(body)


def test_replacing_it_lets_its_streams_end(serving):
    async def body(host, accepted):
        stream = host.models.get(NAME, None).generate(request(1, max_tokens=100))
        unloading = asyncio.create_task(host.live.unload(NAME))
        assert await tokens_of(stream) == alone((1, 2, 3), 100)
        await unloading

    serving(body)


def vet(**changes) -> None:
    """Vet its bundle, with other members in `generation`."""
    files = dict(members(generating_seal([ed25519_key("alice")], NAME)))
    manifest = parse_manifest(files[MANIFEST])
    manifest = replace(manifest, generation=replace(manifest.generation, **changes))
    loader = Loader(Settings())
    try:
        loader.vet(manifest, {name: files[name] for name in manifest.files})
    finally:
        loader.close()


def test_it_is_vetted_with_little_memory():
    vet(add_bos=VOCAB - 1)


@pytest.mark.parametrize(("name", "given"), [("stop_ids", (END, VOCAB)), ("add_bos", VOCAB)])
def test_its_bundle_may_not_name_tokens_that_the_graph_lacks(name, given):
    with pytest.raises(ModelInvalid, match=f"generation.{name} has token {VOCAB}, and the graph knows 0 to") as caught:
        vet(**{name: given})
    assert "tokens of the graph" in caught.value.hint
