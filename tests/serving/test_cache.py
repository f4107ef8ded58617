"""Answers that are kept: what makes two requests one, for whom, how many, and until when."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from sandseal_host.errors import ModelFailed, Revoked
from sandseal_host.serving.cache import ModelCache, ResponseCache, request_key
from sandseal_host.serving.request import BATCH, Request, Response
from sandseal_host.tensors import Tensor, tensor_from_buffer
from sandseal_signing.tensor import DataType
from support.serving import Doubler, Stage, ready_model, request, tensor


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def texts(*elements: bytes) -> Tensor:
    wire = b"".join(len(element).to_bytes(4, "little") + element for element in elements)
    return tensor_from_buffer("x", DataType.BYTES, (len(elements),), wire)


def key(asked: Request, bundle: str = "b", variant: str = "") -> bytes:
    return request_key(bundle, variant, asked)


class TestKeys:
    ASKED = request(1, [[1.0, 2.0]])

    def test_equal_requests_have_one(self):
        other = request(2, [[1.0, 2.0]], service_class=BATCH, arrival=9.0, deadline=10.0)
        assert key(other) == key(self.ASKED)

    @pytest.mark.parametrize(
        "other",
        [
            request(1, [[1.0, 2.5]]),
            request(1, [[1.0], [2.0]]),
            request(1, [1.0, 2.0]),
            request(1, [[1.0, 2.0]], tenant="u"),
            replace(ASKED, parameters=b'{"top":1}'),
            replace(ASKED, inputs=(tensor([[1.0, 2.0]], "other"),)),
            replace(ASKED, inputs=(*ASKED.inputs, tensor([0.0], "more"))),
            replace(ASKED, inputs=()),
            replace(ASKED, inputs=(replace(ASKED.inputs[0], dtype=DataType.INT32),)),
        ],
    )
    def test_whatever_differs_has_another(self, other):
        assert key(other) != key(self.ASKED)

    def test_bundle_and_variant_count(self):
        keys = {
            key(self.ASKED, bundle, variant) for bundle, variant in [("b", ""), ("c", ""), ("b", "FP16"), ("", "b")]
        }
        assert len(keys) == 4

    def test_parts_do_not_run_into_each_other(self):
        def of(tenant: str, parameters: bytes) -> bytes:
            return key(replace(self.ASKED, tenant=tenant, parameters=parameters))

        assert of("ab", b"c") != of("a", b"bc")
        assert key(replace(self.ASKED, inputs=(texts(b"ab", b"c"),))) != key(
            replace(self.ASKED, inputs=(texts(b"a", b"bc"),))
        )

    @pytest.mark.parametrize("values", [np.zeros((0, 2)), np.float32(3.0), np.zeros((2, 0))])
    def test_of_tensors_without_elements_or_axes(self, values):
        assert len(key(replace(self.ASKED, inputs=(tensor(values),)))) == 32


class TestBounds:
    def outputs(self, kib: int = 1) -> tuple[Tensor, ...]:
        return (tensor(np.zeros(kib << 8)),)

    def test_what_was_used_least_recently_goes_first(self):
        cache = ResponseCache(32 << 10)
        for name in b"abcdefghijklmnopqrstu":  # 21 of 1.5 KiB
            cache.keep("t", bytes([name]), "bundle", self.outputs())
        cache.find("t", b"a")
        cache.keep("t", b"v", "bundle", self.outputs())
        assert cache.find("t", b"a") is not None
        assert cache.find("t", b"b") is None
        statistics = cache.statistics()
        assert statistics.bytes <= statistics.limit_bytes
        assert (statistics.answers, statistics.evicted_total) == (21, 1)

    def test_who_has_most_makes_room(self):
        cache = ResponseCache(32 << 10)
        cache.keep("small", b"own", "bundle", self.outputs())
        for number in range(100):
            cache.keep("large", b"%d" % number, "bundle", self.outputs())
        assert cache.find("small", b"own") is not None
        assert cache.statistics().bytes <= 32 << 10

    def test_what_is_too_large_is_not_taken(self):
        cache = ResponseCache(32 << 10)
        assert cache.takes(self.outputs(1))
        assert not cache.takes(self.outputs(2))

    def test_the_same_twice_counts_once(self):
        cache = ResponseCache(32 << 10)
        for _ in range(3):
            cache.keep("t", b"a", "bundle", self.outputs())
        assert cache.statistics().bytes == 1536

    def test_each_tensor_takes_more_than_its_data(self):
        cache = ResponseCache(1 << 20)
        cache.keep("t", b"a", "bundle", 32 * self.outputs(0))
        assert cache.statistics().bytes >= 32 * 512

    def test_a_bundles_answers_are_dropped(self):
        cache = ResponseCache(32 << 10)
        for bundle in ("one", "two"):
            cache.keep("t", bundle.encode(), bundle, self.outputs())
        cache.drop("one")
        assert cache.find("t", b"one") is None
        assert cache.find("t", b"two") is not None
        cache.drop("two")
        assert cache.statistics().bytes == 0


class TestModel:
    def test_answers_the_second_time_without_a_run(self):
        async def test():
            runner = Doubler()
            model = ready_model(runner=runner, cache=ModelCache(ResponseCache(1 << 20), "b"))
            first, second = [await model.infer(request(n, [[3.0, 4.0]])) for n in (1, 2)]
            assert [t.data.tolist() for t in second.outputs] == [t.data.tolist() for t in first.outputs]
            assert list(first.timings) == ["cache-miss", "queue", "run"]
            assert list(second.timings) == ["cache-hit"]
            assert len(runner.batches) == 1
            served = model.served()
            assert (served.requests, served.rows, served.hits, served.misses) == (2, 1, 1, 1)
            assert model.statistics().cache.hits_total == 1

        run(test())

    @pytest.mark.parametrize("size", [4, 100_000])
    def test_what_is_kept_is_a_copy(self, size):
        async def test():
            cache, data = ModelCache(ResponseCache(16 << 20), "b"), np.ones(size, np.float32)

            async def answer(_: Request) -> Response:
                return Response((tensor(data, "y"),))

            await cache.answer(request(1, [[3.0, 4.0]]), answer)
            data[:] = 0
            kept = await cache.answer(request(2, [[3.0, 4.0]]), answer)
            assert kept.outputs[0].data.min() == 1.0

        run(test())

    def test_what_is_too_large_is_answered_all_the_same(self):
        async def test():
            cache = ResponseCache(1024)
            model = ready_model(cache=ModelCache(cache, "b"))
            for n in (1, 2):
                assert next(iter((await model.infer(request(n, [[3.0, 4.0]]))).timings)) == "cache-miss"
            assert cache.statistics().answers == 0

        run(test())

    def test_through_a_waiter_too(self):
        async def test():
            model = ready_model(cache=ModelCache(ResponseCache(1 << 20), "b"))
            for n, told in ((1, "cache-miss"), (2, "cache-hit")):
                answer = asyncio.get_running_loop().create_future()
                model.begin(request(n, [[3.0, 4.0]]), answer)
                assert next(iter((await answer).timings)) == told

        run(test())

    def test_spares_the_stages_as_well(self):
        async def test():
            pre, post = Stage(lambda raw: raw.reshape(-1, 2)), Stage(lambda rows: rows.sum(1), "label")
            model = ready_model(pre=pre, post=post, cache=ModelCache(ResponseCache(1 << 20), "b"))
            for n in (1, 2):
                response = await model.infer(request(n, [1, 2]))
                assert response.outputs[0].data.tolist() == [6]
            assert len(pre.calls) == len(post.calls) == 1

        run(test())

    def test_tenants_share_nothing(self):
        async def test():
            runner = Doubler()
            model = ready_model(runner=runner, cache=ModelCache(ResponseCache(1 << 20), "b"))
            for tenant in ("a", "b", "a", "b"):
                await model.infer(request(1, [[3.0, 4.0]], tenant=tenant))
            assert len(runner.batches) == 2

        run(test())

    def test_what_fails_is_tried_again(self):
        async def test():
            runner = Doubler(refuse=lambda rows: True)
            model = ready_model(runner=runner, cache=ModelCache(ResponseCache(1 << 20), "b"))
            for _ in range(2):
                with pytest.raises(ModelFailed):
                    await model.infer(request(1, [[3.0, 4.0]]))
            assert len(runner.batches) == 2

        run(test())

    def test_an_answer_without_its_plugin_is_not_kept(self):
        async def test():
            cache = ModelCache(ResponseCache(1 << 20), "b")
            skipped = Response((tensor([1.0], "y"),), {}, ("post",))

            async def skip(_: Request) -> Response:
                return skipped

            for _ in range(2):
                response = await cache.answer(request(1, [[3.0, 4.0]]), skip)
                assert response.skipped == ("post",)
                assert list(response.timings) == ["cache-miss"]

        run(test())

    @pytest.mark.parametrize("revoked", [True, False])
    def test_nothing_is_left_of_a_model_that_goes(self, revoked):
        async def test():
            cache = ResponseCache(1 << 20)
            model = ready_model(cache=ModelCache(cache, "b"))
            await model.infer(request(1, [[3.0, 4.0]]))
            assert cache.statistics().answers == 1
            if revoked:
                model.revoke("no longer trusted")
                assert cache.statistics().answers == 0
                with pytest.raises(Revoked):
                    await model.infer(request(1, [[3.0, 4.0]]))
            await model.drain()
            await model.unload()
            assert cache.statistics().answers == 0

        run(test())

    def test_an_answer_that_comes_after_that_is_not_kept(self):
        async def test():
            cache = ResponseCache(1 << 20)
            own = ModelCache(cache, "b")

            async def late(_: Request) -> Response:
                own.close()
                return Response((tensor([1.0], "y"),))

            await own.answer(request(1, [[3.0, 4.0]]), late)
            assert cache.statistics().answers == 0

        run(test())

    def test_large_inputs_are_hashed_apart(self):
        async def test():
            cache = ModelCache(ResponseCache(1 << 20), "b")

            async def answer(asked: Request) -> Response:
                return Response((tensor(asked.inputs[0].data[:, :1], "y"),))

            large = np.zeros((1, 100_000), np.float32)
            first, second = [await cache.answer(request(n, large), answer) for n in (1, 2)]
            assert list(first.timings) == ["cache-miss"]
            assert list(second.timings) == ["cache-hit"]

        run(test())
