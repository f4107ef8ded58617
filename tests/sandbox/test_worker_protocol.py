"""What passes between host and workers: read as it was written, and whatever a worker that was taken over writes."""

import asyncio
import contextlib
import os
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.guests import stage_spec, tensor_spec
from sandseal_host.errors import InputRefused, NotPermitted, PluginTrapped
from sandseal_host.sandbox.abi import MAX_ELEMENTS, StageForm
from sandseal_host.sandbox.log import GuestLog
from sandseal_host.sandbox.workers.call import Call, Stage
from sandseal_host.sandbox.workers.protocol import (
    Answer,
    BrokenMessage,
    Described,
    Kind,
    Order,
    pack_answer,
    pack_order,
    read_answer,
    read_log,
    read_orders,
    read_ready,
)
from sandseal_host.sandbox.workers.region import PAGE, Region, SlotLayout
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType

linux = pytest.mark.skipif(sys.platform != "linux", reason="sandbox workers need Linux")

shapes = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8).map(tuple)
described = st.builds(Described, st.integers(0, 2**64 - 1), shapes)
orders = st.builds(
    Order, st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1), st.booleans(),
    st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.integers(0, 3), st.lists(described, max_size=4),
)  # fmt: skip


def answer_body(answer: Answer) -> bytes:
    message = pack_answer(answer)
    assert message[0] == Kind.ANSWER
    return message[1:]


@given(st.lists(orders, max_size=4))
def test_orders(sent: list[Order]) -> None:
    assert list(read_orders(b"".join(map(pack_order, sent)))) == sent


@given(st.lists(described, max_size=4))
def test_answers(outputs: list[Described]) -> None:
    answer = Answer(7, 1.5, 0.25, 65_536, 3, outputs)
    assert read_answer(answer_body(answer)) == answer


def test_errors() -> None:
    error = PluginTrapped("plugin 'p' trapped", trap="unreachable", frames=[{"function": "f"}])
    read = read_answer(answer_body(Answer(7, error=error))).error
    assert type(read) is PluginTrapped
    assert (read.message, read.hint, read.data) == (error.message, error.hint, error.data)


def test_an_error_that_is_too_long_loses_its_data() -> None:
    long = answer_body(Answer(7, error=PluginTrapped("why " * 5000, frames=["f" * 63_000])))
    read = read_answer(long).error
    assert len(long) < 64 << 10
    assert read is not None
    assert read.data == {}


def test_terminal_escapes_in_a_message_are_escaped() -> None:
    read = read_answer(answer_body(Answer(7, error=InputRefused("a\x1b[2J")))).error
    assert read is not None
    assert read.message == "a\\x1b[2J"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        answer_body(Answer(7))[:-1],
        answer_body(Answer(7)) + b"more",
        answer_body(Answer(7, outputs=[Described(4, (1,))]))[:-1],
        answer_body(Answer(7, error=NotPermitted("a call cannot fail like this"))),
        answer_body(Answer(7, error=InputRefused("x")))[:-1],
        answer_body(Answer(7, error=InputRefused("x"))).replace(b'"input_refused"', b'"no such code"'),
        answer_body(Answer(7, error=InputRefused("x"))).replace(b'"x"', b"7"),
    ],
)
def test_broken_answers(body: bytes) -> None:
    with pytest.raises(BrokenMessage):
        read_answer(body)


@given(st.binary(max_size=200), st.integers(0, 300))
def test_whatever_a_worker_writes_is_read_or_broken(noise: bytes, cut: int) -> None:
    valid = answer_body(Answer(7, error=PluginTrapped("why", trap="unreachable", frames=[])))
    for body in (noise, valid[:cut] + noise):
        for read in (read_answer, read_log, read_ready):
            with contextlib.suppress(BrokenMessage):
                read(body)


def take(region: Region, slot: int, at: int, size: int) -> np.ndarray:
    copied = np.empty(size, np.uint8)
    for _ in region.read(slot, at, copied):
        pass
    return copied


def write(region: Region, layout: SlotLayout, tensor: Tensor, parameters: bytes) -> None:
    for _ in region.write(1, layout, [tensor], parameters):
        pass


@pytest.fixture(scope="module")
def region():
    file = Region.create(2, 64 * PAGE)
    yield Region(file, 2, 64 * PAGE)
    os.close(file)


@linux
def test_no_side_of_a_region_can_make_the_other_die_of_it() -> None:
    file = Region.create(2, 64 * PAGE)
    try:
        for size in (0, PAGE, 1 << 30):
            with pytest.raises(PermissionError):
                os.ftruncate(file, size)
    finally:
        os.close(file)


@linux
class TestOutputs:
    """A described output is copied and then checked, or refused; memory outside the slot is never looked at."""

    def outputs(self, region: Region, spec, *outputs: Described, free: dict[str, int] | None = None):
        stage = Stage(1, StageForm(stage_spec(outputs=(spec,), memory_mib=1), "p"), GuestLog("p", print), -1, 1)
        loop = asyncio.new_event_loop()
        layout = SlotLayout.of([4], 2)
        call = Call(0, 1, stage, (), b"{}", layout, free or {}, 0, loop.create_future())
        loop.close()
        copies = [take(region, 1, at, o.size) for at, o in zip(stage.check(call, outputs), outputs, strict=True)]
        return stage.outputs(outputs, copies)

    def fill(self, region: Region, *values: float, dtype=np.float32) -> None:
        array = region.array(1, SlotLayout.of([4], 2).outputs_at, len(values), np.dtype(dtype))
        array[:] = values

    def test_a_good_one(self, region: Region) -> None:
        self.fill(region, 1, 2)
        (y,) = self.outputs(region, tensor_spec("y", "FP32", "n"), Described(8, (2,)), free={"n": 2})
        self.fill(region, 3, 4)  # the worker writes to it afterwards
        assert y.data.tolist() == [1, 2]

    @given(st.lists(described, max_size=2))
    def test_whatever_a_worker_describes(self, region: Region, outputs: list[Described]) -> None:
        try:
            (y,) = self.outputs(region, tensor_spec("y", "FP32", "n", "m"), *outputs)
        except BrokenMessage:
            return
        assert y.data.nbytes <= 1 << 20

    @pytest.mark.parametrize(
        ("dtype", "output"),
        [
            ("FP32", Described(8, (3,))),
            ("FP32", Described(4, (1, 1))),
            ("FP32", Described(0, (-1,))),
            ("FP32", Described(1 << 40, (1 << 38,))),
            ("FP32", Described(2 << 20, (1 << 19,))),
            ("FP32", Described(8, (2,))),  # of another size than the input's axis of that name
            ("BOOL", Described(1, (1,))),
            ("BYTES", Described(4, (2,))),
            ("BYTES", Described(4, (MAX_ELEMENTS + 1,))),
        ],
    )
    def test_a_bad_one(self, region: Region, dtype: str, output: Described) -> None:
        self.fill(region, 2, dtype=np.uint8)
        with pytest.raises(BrokenMessage):
            self.outputs(region, tensor_spec("y", dtype, "n"), output, free={"n": 3})


@linux
def test_a_slot_is_empty_once_it_is_cleared() -> None:
    size = 3 << 20
    file = Region.create(2, 16 << 20)
    region = Region(file, 2, 16 << 20)
    layout = SlotLayout.of([size], 5)
    ones = Tensor("x", DataType.UINT8, (size,), np.ones(size, np.uint8))
    write(region, layout, ones, b"12345")
    assert take(region, 1, 0, size).all()
    assert region.text(1, layout.parameters_at, 5) == b"12345"
    assert not take(region, 0, 0, 16 << 20).any()
    region.clear(1, 0, layout.parameters_at + 5)
    assert not take(region, 1, 0, 16 << 20).any()
    write(region, layout, ones, b"")
    region.clear_all(1)
    assert not take(region, 1, 0, 16 << 20).any()
    region.cancel(1)
    assert (region.cancelled(0), region.cancelled(1)) == (False, True)
    region.close()
    os.close(file)
