"""A lane on a real session: what the doubles of the other tests stand for."""

import asyncio
import time
from contextlib import asynccontextmanager

import numpy as np
import pytest

from sandseal_host.errors import DeadlineExpired, ModelFailed
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.session import Session
from sandseal_host.serving.lane import Lane
from sandseal_host.serving.request import STANDARD, Request
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support import onnx_models
from support.serving import NEVER


@asynccontextmanager
async def serving(model: onnx_models.OnnxModel, **settings):
    with Session.open(model.files, Device.parse("cpu")) as session:
        lane = Lane(session, SchedulerSettings(max_rows=session.max_rows, **settings), inline_below_s=0.0)
        yield lane
        await lane.close()


def index(number: int, value: int, deadline: float = NEVER) -> Request:
    data = np.array([[value]], np.int64)
    tensor = Tensor("index", DataType.INT64, data.shape, data)
    return Request(number, (tensor,), 1, STANDARD, "t", time.monotonic(), deadline)


def test_one_bad_input_fails_alone():
    async def test():
        async with serving(onnx_models.picky(8)) as lane:
            values = [0, 3, 99, 7]  # the table has eight entries
            answers = await asyncio.gather(
                *(lane.run(index(*pair)) for pair in enumerate(values)), return_exceptions=True
            )
            assert isinstance(answers[2], ModelFailed)
            assert [float(answers[i].outputs[0].data[0, 0]) for i in (0, 1, 3)] == [0.0, 3.0, 7.0]
            assert lane.statistics().threaded == 1

    asyncio.run(test())


def test_a_run_without_end_is_broken_off_and_the_lane_serves_on():
    async def test():
        async with serving(onnx_models.looping()) as lane:
            with pytest.raises(DeadlineExpired, match="broken off"):
                await lane.run(index(1, 10**12, deadline=time.monotonic() + 0.5))
            assert (await lane.run(index(2, 5))).outputs[0].data.tolist() == [[5]]

    asyncio.run(test())


@pytest.mark.slow
def test_two_batches_run_at_once_in_buffers_of_their_own():
    async def test():
        async with serving(onnx_models.looping(), instances=2) as lane:
            long = asyncio.create_task(lane.run(index(1, 2_000_000)))
            while lane.statistics().scheduler.running < 1:  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(0)
            short = await lane.run(index(2, 3))
            assert not long.done()
            assert short.outputs[0].data.tolist() == [[3]]
            assert (await long).outputs[0].data.tolist() == [[2_000_000]]

    asyncio.run(test())
