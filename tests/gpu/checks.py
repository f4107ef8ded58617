"""What must hold on a device with memory of its own; each check says what it saw, or fails with a reason.

On a GPU all of them run (`check.py`). Those of `ANYWHERE` ask for nothing that only CUDA has: the tests run them on a
device whose memory is the host's.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager

import numpy as np
from onnx import helper, numpy_helper

from sandseal_host.errors import MemoryExhausted, ModelFailed
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import KINDS, Tensor
from sandseal_signing.tensor import DataType
from support import decoders
from support.onnx_models import OnnxModel, build, conv_net, encoder, huge, identity, looping, mlp, pair, softmax

MIB = 1 << 20
CPU = Device.parse("cpu")
Check = Callable[[Device], str]


class Failed(Exception):
    """A check saw something else than it should."""


def expect(condition: bool, reason: str) -> None:
    """Fail with this reason unless the condition holds."""
    if not condition:
        raise Failed(reason)


@contextmanager
def opened(model: OnnxModel, device: Device, **options):
    """The model on the device."""
    with Session.open(model.files, device, **options) as session:
        yield session


def inputs_for(model: OnnxModel, rows: int, seed: int = 0) -> tuple[Tensor, ...]:
    """Random rows that the model takes."""
    rng = np.random.default_rng(seed)
    tensors = []
    for spec in model.spec.inputs:
        shape = [rows if axis == "batch" else 8 if isinstance(axis, str) else axis for axis in spec.shape]
        kind = KINDS[spec.dtype].numpy
        data = rng.standard_normal(shape) if kind.kind == "f" else rng.integers(0, 9, shape)
        tensors.append(Tensor(spec.name, spec.dtype, tuple(shape), data.astype(kind)))
    return tuple(tensors)


def answers_are_the_cpu_s(device: Device) -> str:
    """Three kinds of models, alone and in batches; TF32 rounds to about three digits."""
    worst = 0.0
    for model in (mlp(), conv_net(), encoder(2)):
        with opened(model, device) as there, opened(model, CPU) as here:
            requests = [inputs_for(model, rows, rows) for rows in (1, 3, 2)]
            for far, near in zip(there.run(requests), here.run(requests), strict=True):
                scale = np.abs(near[0].data).max()
                worst = max(worst, float(np.abs(far[0].data - near[0].data).max() / scale))
    expect(worst < 5e-3, f"they differ by {worst:.1%} of the largest value")
    return f"largest difference {worst:.1e} of the largest value"


def every_type_goes_through(device: Device) -> str:
    """There and back, bit by bit."""
    types = [dtype for dtype in DataType if dtype is not DataType.BYTES]
    for dtype in types:
        model = identity(dtype)
        (x,) = inputs = inputs_for(model, 3)
        with opened(model, device) as session:
            expect(session.run([inputs])[0][0].data.tobytes() == x.data.tobytes(), f"{dtype} comes back changed")
    return f"{len(types)} data types"


def half_precision(device: Device) -> str:
    """A layer in FP16 against the same in FP32."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((256, 256)) / 16).astype(np.float16)
    node, row = helper.make_node("MatMul", ["x", "w"], ["y"]), ("batch", 256)
    tensors = [("x", DataType.FP16, row)], [("y", DataType.FP16, row)]
    model = build([node], *tensors, [numpy_helper.from_array(weights, "w")])
    (x,) = inputs = inputs_for(model, 16)
    with opened(model, device) as session:
        got = session.run([inputs])[0][0].data.astype(np.float32)
    worst = float(np.abs(got - x.data.astype(np.float32) @ weights.astype(np.float32)).max())
    expect(worst < 0.05, f"off by {worst}")
    return f"off by {worst:.4f} at most"


def each_byte_is_copied_once(device: Device) -> str:
    """In and out, for a batch of three requests."""
    model = pair()
    with opened(model, device) as session:
        before = session.statistics()
        requests = [inputs_for(model, rows) for rows in (1, 2, 1)]
        outputs = session.run(requests)
        after = session.statistics()
    sent = sum(tensor.nbytes for request in requests for tensor in request)
    fetched = sum(tensor.nbytes for answer in outputs for tensor in answer)
    moved = (
        after.gathered_bytes_total - before.gathered_bytes_total,
        after.uploaded_bytes_total - before.uploaded_bytes_total,
        after.downloaded_bytes_total - before.downloaded_bytes_total,
    )
    expect(moved == (sent, sent, fetched), f"gathered, sent, fetched {moved}, not {(sent, sent, fetched)}")
    return f"{sent} bytes in, {fetched} out"


def two_models_at_once(device: Device) -> str:
    """Two sessions, two threads each, at the same time; nobody gets another's rows."""
    wrong: list[str] = []
    with opened(mlp(), device) as first, opened(encoder(2), device) as second:
        jobs = [(session, model, seed) for seed in (1, 2) for session, model in ((first, mlp()), (second, encoder(2)))]

        def work(session: Session, model: OnnxModel, seed: int) -> None:
            requests = [inputs_for(model, 1 + n % 3, 100 * seed + n) for n in range(6)]
            alone = [session.run([request])[0][0].data.copy() for request in requests]
            for _ in range(20):
                for answer, wanted in zip(session.run(requests), alone, strict=True):
                    if not np.allclose(answer[0].data, wanted, rtol=2e-2, atol=2e-2):
                        wrong.append(model.spec.outputs[0].name)

        together([lambda job=job: work(*job) for job in jobs])
    expect(not wrong, f"{len(wrong)} answers were wrong")
    return "480 batches on four threads"


def graphs_change_no_answer(device: Device) -> str:
    """A deep model of small layers, with CUDA graphs and without; any number of rows."""
    model = mlp((256,) * 25)
    with opened(model, device) as plain, opened(model, device, graphs=True) as graphed:
        expect(graphed._graph_rows > 0, "the session has no graphs")
        for rows in (1, 2, 3, 8, 21, 32):
            inputs = inputs_for(model, rows, rows)
            near, far = (session.run([inputs])[0][0].data for session in (plain, graphed))
            expect(bool(np.allclose(near, far, rtol=2e-2, atol=2e-2)), f"{rows} rows are answered differently")
        inputs = [inputs_for(model, 4)]
        times = [seconds(lambda s=session: s.run(inputs)) * 1e6 for session in (plain, graphed)]
    return f"4 rows in {times[1]:.0f} us, {times[0]:.0f} us without"


def sequences_stay_in_their_slots(device: Device) -> str:
    """A decoder's ragged batch, whose sequences are moved, saved and brought back meanwhile."""

    def logits(place: Device) -> np.ndarray:
        with decoders.opened(decoders.decoder(half=True), place, slots=3) as decoder:
            for slot, length in enumerate((5, 30)):
                decoder.prefill(slot, range(length), 0)
            steps = [decoder.decode([7, 8], [5, 30]).copy()]
            kept = decoder.save(0, 6)
            decoder.move(1, 0, 31)
            decoder.restore(1, kept)
            return np.stack([*steps, decoder.decode([9, 9], [31, 6]).copy()])

    there, here = logits(device), logits(CPU)
    worst = float(np.abs(there - here).max() / np.abs(here).max())
    expect(worst < 1e-2, f"logits differ by {worst:.1%} of the largest one")
    return f"largest difference {worst:.1e} of the largest logit"


def copies_overlap(device: Device) -> str:
    """Batches from two threads against the same from one: what one copies, the other computes."""
    model = conv_net()
    with opened(model, device) as session:
        inputs = [inputs_for(model, 32)]
        session.run(inputs)
        one = seconds(lambda: [session.run(inputs) for _ in range(40)], 1)
        two = seconds(lambda: together([lambda: [session.run(inputs) for _ in range(20)]] * 2), 1)
    return f"40 batches of 32 images: {two * 1e3:.0f} ms in two threads, {one * 1e3:.0f} ms in one ({one / two:.2f}x)"


def a_run_can_be_broken_off(device: Device) -> str:
    """`terminate` from another thread; the session goes on."""
    model = looping()
    with opened(model, device) as session:
        handle = session.handle()
        timer = threading.Timer(0.2, setattr, (handle, "terminate", True))
        timer.start()
        began = time.monotonic()
        try:
            session.run([(rounds(1_000_000_000),)], handle)
        except ModelFailed:
            took = time.monotonic() - began
            expect(session.run([(rounds(7),)])[0][0].data.tolist() == [[7]], "the session is not usable any more")
            return f"ended after {took:.2f} s, told so after 0.2"
        raise Failed("it ran to its end")


def too_large_a_run_is_refused(device: Device) -> str:
    """`MemoryExhausted`, and the session goes on."""
    with opened(huge(), device) as session:
        try:
            session.run([(Tensor("size", DataType.INT64, (1,), np.array([2**44])),)])
        except MemoryExhausted as error:
            small = session.run([(Tensor("size", DataType.INT64, (1,), np.array([8])),)])
            expect(small[0][0].shape == (8,), "the session is not usable any more")
            return error.message[:90]
        raise Failed("64 TiB were there")


def memory_is_back_after_unload(device: Device) -> str:
    """Load, run, close, again and again: the device's memory is where it was after the first time."""
    model, levels = mlp((2048, 8192, 8192, 2048)), []  # 400 MB of weights
    for _ in range(3):
        with opened(model, device) as session:
            session.run([inputs_for(model, 32)])
            held = session.statistics().resident_bytes
        levels.append(device.used())
    growth = max(levels[1:]) - levels[0]
    expect(growth < 64 * MIB, f"{growth // MIB} MiB stay with each load")
    return f"{held // MIB} MiB held while loaded, {growth // MIB} MiB more in use after the third time"


def memory_does_not_grow_with_shapes(device: Device) -> str:
    """Hundreds of shapes, then rest: the arena gives back what they took."""
    model, rng = softmax(), np.random.default_rng(0)
    with opened(model, device) as session:

        def runs(count: int) -> int:
            for width in rng.integers(1, 400_000, count):
                data = np.zeros((int(rng.integers(1, 9)), int(width)), np.float32)
                session.run([(Tensor("x", DataType.FP32, data.shape, data),)])
            most = device.used()
            session.rest()
            session.rest()
            return most - device.used()

        runs(100)
        first = device.used()
        given = runs(200)
        growth = device.used() - first
    expect(growth < 64 * MIB, f"{growth // MIB} MiB stay after another 200 shapes")
    return f"{given // MIB} MiB given back at rest, {growth // MIB} MiB more after another 200 shapes"


def rounds(count: int) -> Tensor:
    """How often the looping model loops."""
    return Tensor("rounds", DataType.INT64, (1, 1), np.array([[count]]))


def seconds(work: Callable[[], object], times: int = 50) -> float:
    """The shortest of some calls."""
    return min(_timed(work) for _ in range(times))


def together(jobs: list[Callable[[], object]]) -> None:
    """Run them at the same time; an exception of one is raised here."""
    errors: list[BaseException] = []

    def work(job: Callable[[], object]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


ANYWHERE: Mapping[str, Check] = {
    "answers": answers_are_the_cpu_s,
    "data types": every_type_goes_through,
    "FP16": half_precision,
    "copies": each_byte_is_copied_once,
    "two models at once": two_models_at_once,
    "graphs": graphs_change_no_answer,
    "decoder": sequences_stay_in_their_slots,
    "overlap": copies_overlap,
    "termination": a_run_can_be_broken_off,
    "out of memory": too_large_a_run_is_refused,
    "memory after unload": memory_is_back_after_unload,
    "memory of shapes": memory_does_not_grow_with_shapes,
}
