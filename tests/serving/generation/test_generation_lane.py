import asyncio
import time

import pytest

from sandseal_host.errors import ClientGone, DeadlineExpired, ModelFailed, NotReady, RequestInvalid, Revoked
from sandseal_host.serving.generation import lane as lane_module
from sandseal_host.serving.generation.sampling import Sampling
from sandseal_host.serving.generation.stops import StopStrings
from sandseal_host.serving.generation.stream import BUFFER
from sandseal_host.serving.request import BATCH, REALTIME
from support.decoders import CONTEXT, VOCAB
from support.generation import Lanes, alone, prompt_of, request, run, sampling, tokens_of
from support.waiting import until


def test_a_stream_gives_the_tokens_that_its_prompt_has_alone():
    async def body():
        async with Lanes() as lane:
            stream = lane.generate(request(1, prompt_of(40), max_tokens=20))
            pieces = [piece async for piece in stream]
            tokens = tuple(token for piece in pieces for token in piece.tokens)
            assert tokens == alone(prompt_of(40), 20)
            assert [piece.finish for piece in pieces] == [None] * (len(pieces) - 1) + ["length"]
            assert (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (40, 20)
            assert list(stream.timings.table()) == ["queue", "prefill", "decode"]

    run(body())


def test_more_streams_than_slots_all_get_theirs():
    async def body():
        async with Lanes() as lane:
            prompts = [prompt_of(3 + 7 * i, i) for i in range(9)]
            streams = [lane.generate(request(i, prompt, max_tokens=12)) for i, prompt in enumerate(prompts)]
            answers = await asyncio.gather(*map(tokens_of, streams))
            assert answers == [alone(prompt, 12) for prompt in prompts]

    run(body())


def test_a_seeded_stream_draws_the_same_whatever_runs_with_it():
    async def body():
        async with Lanes() as lane:
            prompt = prompt_of(10)
            streams = [
                lane.generate(request(i, prompt_of(10, i), max_tokens=20, sampling=sampling(i or None)))
                for i in range(3)
            ]
            drawn = lane.generate(request(9, prompt, max_tokens=20, sampling=sampling(77)))
            assert await tokens_of(drawn) == alone(prompt, 20, 77)
            await asyncio.gather(*map(tokens_of, streams))

    run(body())


def test_the_answers_to_one_request_share_what_finds_their_stop_strings(monkeypatch):
    made = []
    monkeypatch.setattr(lane_module, "StopStrings", lambda strings: made.append(strings) or StopStrings(strings))

    async def body():
        async with Lanes() as lane:
            streams = [lane.generate(request(i, prompt_of(5), stop=("zz", "y" * 50))) for i in range(4)]
            assert await asyncio.gather(*map(tokens_of, streams)) == [alone(prompt_of(5), 8)] * 4
        assert made == [("zz", "y" * 50)]

    run(body())


def test_the_text_ends_before_a_stop_string_and_a_stop_token():
    async def body():
        async with Lanes() as lane:
            prompt = prompt_of(12, 5)
            tokens = alone(prompt, 30)
            text = b"".join(bytes([t]) if t < 256 else b"" for t in tokens).decode("utf-8", "replace")
            stop = text[4:6]
            pieces = [p async for p in lane.generate(request(1, prompt, max_tokens=30, stop=(stop,)))]
            assert "".join(p.text for p in pieces) == text[: text.index(stop)]
            assert pieces[-1].finish == "stop"
            ended = tokens[7]
            stream = lane.generate(request(2, prompt, max_tokens=30, stop_ids=frozenset({ended})))
            assert await tokens_of(stream) == tokens[: tokens.index(ended)]

    run(body())


@pytest.mark.parametrize(
    ("prompt", "what", "says"),
    [
        ((), {}, "no tokens"),
        ((1, VOCAB), {}, f"a token {VOCAB}"),
        ((-1,), {}, "a token -1"),
        (prompt_of(CONTEXT), {}, f"has {CONTEXT} tokens"),
        ((-1,) * CONTEXT, {}, f"has {CONTEXT} tokens"),
        ((1,), {"max_tokens": -1}, "max_tokens is -1"),
        ((1,), {"stop": ("",)}, "stop string is empty"),
        ((1,), {"sampling": Sampling(top_p=1.5)}, "top_p is 1.5"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(prompt, what, says):
    async def body():
        async with Lanes() as lane:
            with pytest.raises(RequestInvalid, match=says):
                lane.generate(request(1, prompt, **what))

    run(body())


def test_the_context_ends_an_answer_at_its_very_edge():
    async def body():
        async with Lanes() as lane:
            for length in (CONTEXT - 1, CONTEXT - 2):
                stream = lane.generate(request(length, prompt_of(length), max_tokens=50))
                pieces = [piece async for piece in stream]
                assert stream.usage.completion_tokens == CONTEXT - length
                assert pieces[-1].finish == "length"

    run(body())


def test_an_answer_of_no_tokens_is_there_at_once():
    async def body():
        ended = []
        async with Lanes() as lane:
            stream = lane.generate(request(1, max_tokens=0), lambda: ended.append(1))
            pieces = [piece async for piece in stream]
        assert [(piece.text, piece.tokens, piece.finish) for piece in pieces] == [("", (), "length")]
        assert (ended, stream.usage.completion_tokens) == ([1], 0)

    run(body())


def test_a_stream_that_is_not_read_pauses_and_its_batch_does_not():
    async def body():
        async with Lanes() as lane:
            logged = Sampling(temperature=0.0, logprobs=1)  # a piece for each token
            unread = lane.generate(request(1, prompt_of(5), max_tokens=100, sampling=logged))
            await until(lambda: lane.statistics().sequences.held)
            others = [lane.generate(request(2 + i, prompt_of(6, i), max_tokens=60)) for i in range(2)]
            assert await asyncio.gather(*map(tokens_of, others)) == [alone(prompt_of(6, i), 60) for i in range(2)]
            assert unread.usage.completion_tokens == BUFFER
            assert await tokens_of(unread) == alone(prompt_of(5), 100)

    run(body())


def test_a_stream_that_is_not_read_gives_its_slot_to_others():
    async def body():
        async with Lanes(slots=1) as lane:
            logged = Sampling(temperature=0.0, logprobs=1)
            unread = lane.generate(request(1, prompt_of(5), max_tokens=100, sampling=logged))
            await until(lambda: lane.statistics().sequences.held)
            assert await tokens_of(lane.generate(request(2, prompt_of(6), max_tokens=9))) == alone(prompt_of(6), 9)
            assert lane.statistics().sequences.pauses_total == 1
            assert await tokens_of(unread) == alone(prompt_of(5), 100)

    run(body())


def test_a_stream_that_nobody_reads_is_ended():
    async def body():
        async with Lanes(read_s=0.05) as lane:
            logged = Sampling(temperature=0.0, logprobs=1)
            unread = lane.generate(request(1, max_tokens=100, sampling=logged))
            await until(lambda: unread.ended)
            with pytest.raises(ClientGone, match="not read"):
                await tokens_of(unread)
            assert lane.statistics().tokens.slow_readers_total == 1
            assert not lane.statistics().sequences.decoding

    run(body())


def test_a_reader_that_goes_frees_its_slot():
    async def body():
        async with Lanes(slots=1) as lane:
            ended = []
            with lane.generate(request(1, max_tokens=200), lambda: ended.append(1)) as stream:
                await anext(stream)
            assert ended == [1]
            assert await tokens_of(lane.generate(request(2, (4, 5), max_tokens=5))) == alone((4, 5), 5)
            assert lane.statistics().sequences.cancelled_total == 1

    run(body())


def test_a_reader_that_goes_while_it_waits_leaves_the_queue():
    async def body():
        async with Lanes(slots=1) as lane:
            first = lane.generate(request(1, max_tokens=100))
            lane.generate(request(2, max_tokens=100)).cancel()
            await until(lambda: not lane.statistics().sequences.waiting["standard"])
            assert await tokens_of(first) == alone((1, 2, 3), 100)

    run(body())


def test_a_realtime_stream_takes_the_slot_of_a_batch_one_which_loses_nothing():
    async def body():
        async with Lanes(slots=1) as lane:
            slow = lane.generate(request(1, prompt_of(30), max_tokens=120, service_class=BATCH))
            await anext(slow)
            quick = lane.generate(
                request(2, prompt_of(9), max_tokens=9, service_class=REALTIME, arrival=time.monotonic())
            )
            assert await tokens_of(quick) == alone(prompt_of(9), 9)
            await tokens_of(slow)
            assert slow.usage.completion_tokens == 120
            assert lane.statistics().sequences.pauses_total >= 1

    run(body())


@pytest.mark.parametrize("host_bytes", [0, 256 << 20])
def test_a_paused_stream_goes_on_where_it_was(host_bytes):
    async def body():
        async with Lanes(slots=1, host_bytes=host_bytes) as lane:
            slow = lane.generate(request(1, prompt_of(30), max_tokens=60, service_class=BATCH))
            head = (await anext(slow)).tokens
            quick = lane.generate(request(2, prompt_of(9), max_tokens=9, service_class=REALTIME))
            assert await tokens_of(quick) == alone(prompt_of(9), 9)
            assert head + await tokens_of(slow) == alone(prompt_of(30), 60)
            assert (lane.statistics().tokens.recomputed_total > 0) == (host_bytes == 0)

    run(body())


def test_prompts_that_begin_alike_are_run_once_for_one_tenant():
    async def body():
        async with Lanes() as lane:
            system = prompt_of(64, 3)
            for i, (tail, tenant) in enumerate([((1, 2), "a"), ((3,), "a"), ((3,), "b"), ((), "a")]):
                stream = lane.generate(request(i, system + tail, tenant=tenant))
                assert await tokens_of(stream) == alone(system + tail, 8)
                assert stream.usage.cached_tokens == (0, 64, 0, 63)[i]
            counts = lane.statistics().prefixes
            assert (counts.hits_total, counts.misses_total, counts.tokens_total) == (2, 2, 127)

    run(body())


def test_a_deadline_ends_a_stream_that_runs():
    async def body():
        async with Lanes() as lane:
            logged = Sampling(temperature=0.0, logprobs=1)  # more pieces than the buffer holds
            stream = lane.generate(request(1, max_tokens=250, sampling=logged, deadline=time.monotonic() + 0.3))
            await until(lambda: stream.ended)
            with pytest.raises(DeadlineExpired):
                await tokens_of(stream)

    run(body())


def test_draining_ends_what_was_begun_and_takes_no_more():
    async def body():
        async with Lanes() as lane:
            stream = lane.generate(request(1, max_tokens=30))
            closing = asyncio.create_task(lane.close())
            await asyncio.sleep(0)
            with pytest.raises(NotReady):
                lane.generate(request(2))
            assert await tokens_of(stream) == alone((1, 2, 3), 30)
            await closing

    run(body())


def test_what_does_not_end_in_time_is_ended():
    async def body():
        async with Lanes() as lane:
            logged = Sampling(temperature=0.0, logprobs=1)
            stream = lane.generate(request(1, max_tokens=250, sampling=logged))  # more than the buffer holds
            await lane.close(0.01)
            with pytest.raises(NotReady):
                await tokens_of(stream)

    run(body())


def test_revoking_ends_streams_and_what_is_still_to_come():
    async def body():
        async with Lanes() as lane:
            streams = [lane.generate(request(i, max_tokens=250)) for i in range(5)]
            await anext(streams[0])
            lane.withdraw(Revoked("its key was stolen"))
            for stream in streams:
                with pytest.raises(Revoked):
                    await tokens_of(stream)
            with pytest.raises(Revoked):
                lane.generate(request(9))

    run(body())


def test_a_step_that_fails_ends_its_streams_alone_and_is_logged(caplog, monkeypatch):
    async def body():
        lanes = Lanes()
        async with lanes as lane:
            with monkeypatch.context() as patch:
                patch.setattr(lanes.decoder, "prefill", lambda *_: 1 // 0)
                streams = [lane.generate(request(i)) for i in range(4)]
                for stream in streams:
                    with pytest.raises(ModelFailed, match="the step failed: integer division") as caught:
                        await tokens_of(stream)
                    assert "log says where" in caught.value.hint
            assert "a step of tiny failed" in caplog.text
            assert "ZeroDivisionError" in caplog.text
            assert await tokens_of(lane.generate(request(9))) == alone((1, 2, 3), 8)

    run(body())


def test_its_figures_say_how_quickly_tokens_come():
    async def body():
        async with Lanes() as lane:
            await tokens_of(lane.generate(request(1, max_tokens=10, arrival=time.monotonic())))
            statistics = lane.statistics()
            tokens = statistics.tokens
            assert (tokens.tokens_total, tokens.prompt_tokens_total, statistics.finished_total) == (10, 3, 1)
            assert (sum(tokens.first_s_histogram.values()), sum(tokens.gap_s_histogram.values())) == (1, 9)
            assert statistics.kv_bytes == (statistics.slots + 1) * statistics.slot_bytes

    run(body())
