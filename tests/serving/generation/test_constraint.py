"""Logits stages on a lane: real plugins, a real decoder that knows nothing, and streams that must not wait."""

import asyncio
import json

import pytest

from plugins.logits import PLUGINS
from sandbox.guests import DONE, guest, stage_spec
from sandseal_host.errors import InputRefused, PluginTimeout, PluginTrapped
from sandseal_host.sandbox import SandboxEngine, StagePool
from sandseal_host.sandbox.logits import logits_assets
from sandseal_host.serving.generation.constraint import LogitsStage
from sandseal_sdk.build import build_plugin
from sandseal_signing.stage import LOGITS_INPUTS, LOGITS_OUTPUTS
from support.decoders import VOCAB
from support.generation import Lanes, alone, prompt_of, request, run, tokens_of

pytestmark = pytest.mark.slow

END = VOCAB - 1
TOKENS = [bytes([i]) for i in range(256)] + [b""] * (VOCAB - 256)
RESET = '(func (export "sandseal_reset") (global.set $top (i32.const 4096)))'
PASS = "(call $alias (call $out (local.get $call) (i32.const 0)) (call $in (local.get $call) (i32.const 1)))"


def hostile(act: str) -> bytes:
    """A plugin that passes logits on, unless its parameters are longer than {}: then it does what is put in."""
    asked = "(i32.gt_u (i32.load offset=20 (local.get $call)) (i32.const 2))"
    return guest(f"(if {asked} (then {act})) {PASS} {DONE}", extra=RESET)


LOOP = hostile("(loop $l (br $l))")


@pytest.fixture(scope="module")
def engine():
    with SandboxEngine() as engine:
        yield engine


@pytest.fixture
def stage(engine, request):
    """A logits stage of a plugin of ours by its name, or of a guest and the milliseconds that each call may take."""
    if isinstance(request.param, str):
        built = build_plugin(PLUGINS / request.param)
        wasm, spec = built.wasm.read_bytes(), built.spec.stage
    else:
        wasm, time_ms = request.param
        spec = stage_spec(inputs=LOGITS_INPUTS, outputs=LOGITS_OUTPUTS, mode="stream", time_ms=time_ms)
    pool = StagePool(engine.compile(wasm, spec, assets=logits_assets(TOKENS, (), [END])), 2)
    yield LogitsStage(pool)
    pool.close()


def constrained(number, seed=0, max_tokens=40, **constraints):
    stop_ids = frozenset({END})
    limits = json.dumps(constraints).encode()
    return request(number, prompt_of(8, seed), max_tokens=max_tokens, stop_ids=stop_ids, constraints=limits)


async def text_of(stream):
    return "".join([piece.text async for piece in stream])


@pytest.mark.parametrize("stage", ["json-schema-logits"], indirect=True)
def test_answers_keep_to_their_schemas_beside_free_ones(stage):
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "n": {"enum": [1, 22, 333]}, "s": {"type": "string", "maxLength": 5}},
        "required": ["ok", "n", "s"],
    }

    async def body():
        async with Lanes(logits=stage) as lane:
            bound = [lane.generate(constrained(i, i, 120, json_schema=schema)) for i in range(3)]
            free = lane.generate(request(9, prompt_of(8, 9), max_tokens=30))
            assert await tokens_of(free) == alone(prompt_of(8, 9), 30)
            for answer in await asyncio.gather(*map(text_of, bound)):
                found = json.loads(answer)
                assert list(found) == ["ok", "n", "s"]
                assert found["n"] in (1, 22, 333)
                assert len(found["s"]) <= 5

    run(body())


@pytest.mark.parametrize("stage", ["json-schema-logits"], indirect=True)
def test_a_schema_that_is_refused_ends_its_stream_alone(stage):
    async def body():
        async with Lanes(logits=stage) as lane:
            bad = lane.generate(constrained(1, json_schema={"type": "text"}))
            good = lane.generate(constrained(2, json_schema={"type": "boolean"}))
            with pytest.raises(InputRefused, match="a type in the schema is unknown"):
                await tokens_of(bad)
            assert await text_of(good) in ("true", "false")

    run(body())


@pytest.mark.parametrize("stage", ["banned-strings-logits"], indirect=True)
def test_banned_strings_do_not_come(stage):
    async def body():
        async with Lanes(logits=stage) as lane:
            plain = await text_of(lane.generate(constrained(1)))
            banned = [character for character in plain if character.isascii()]  # others may be broken UTF-8
            assert banned
            answer = await text_of(lane.generate(constrained(2, banned_strings=banned)))
            assert answer
            assert not set(answer) & set(banned)

    run(body())


@pytest.mark.parametrize(
    ("stage", "error"),
    [((LOOP, 500), PluginTimeout), ((hostile("unreachable"), 500), PluginTrapped)],
    indirect=["stage"],
    ids=["it loops for ever", "it traps"],
)
def test_a_hostile_plugin_ends_its_own_stream_alone(stage, error):
    async def body():
        async with Lanes(logits=stage) as lane:
            bad = asyncio.ensure_future(tokens_of(lane.generate(constrained(1, a=1))))
            for number in range(2, 5):
                good = lane.generate(request(number, prompt_of(8, number), max_tokens=30))
                assert await tokens_of(good) == alone(prompt_of(8, number), 30)
            with pytest.raises(error):
                await bad

    run(body())


@pytest.mark.parametrize("stage", [(LOOP, 60_000)], indirect=True, ids=["it loops for ever"])
def test_a_hostile_plugin_stalls_nobody_else_and_lets_go_when_its_stream_is_left(stage):
    async def body():
        async with Lanes(logits=stage) as lane:
            stalled = lane.generate(constrained(1, a=1))
            bad = asyncio.ensure_future(tokens_of(stalled))
            for number in range(2, 5):
                good = lane.generate(request(number, prompt_of(8, number), max_tokens=30))
                assert await tokens_of(good) == alone(prompt_of(8, number), 30)
            assert not bad.done()
            stalled.cancel()
            assert await tokens_of(lane.generate(request(5, prompt_of(4), max_tokens=5))) == alone(prompt_of(4), 5)
            bad.cancel()

    run(body())


@pytest.mark.parametrize("stage", [(hostile(""), 500)], indirect=True, ids=["it passes"])
def test_logits_that_pass_are_as_they_were(stage):
    async def body():
        async with Lanes(logits=stage) as lane:
            for number in range(3):
                found = await tokens_of(lane.generate(constrained(number, number, 25)))
                wanted = alone(prompt_of(8, number), 25)
                assert found == wanted[: wanted.index(END)] if END in wanted else found == wanted

    run(body())
