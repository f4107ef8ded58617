import threading
import time

import numpy as np
import pytest

from sandseal_host.errors import ModelFailed, NotReady
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import KINDS, Tensor, tensor_from_buffer
from sandseal_signing.tensor import DataType
from support import onnx_models
from support.staged_device import StagedCpu, staged
from support.waiting import wait_until


def open_session(model: onnx_models.OnnxModel, backend: StagedCpu | None = None, **options) -> Session:
    return Session.open(model.files, staged(backend=backend), **options)


def tensor(name, values, dtype=DataType.FP32) -> Tensor:
    data = np.ascontiguousarray(values, KINDS[dtype].numpy)
    return Tensor(name, dtype, data.shape, data)


def rows_of(count: int, seed: int = 0, width: int = 128):
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def test_the_answers_are_those_of_the_host_s_own_memory():
    model = onnx_models.mlp()
    requests = [(tensor("x", rows_of(n, n)),) for n in (1, 3, 1, 7, 2)]
    with open_session(model) as there, Session.open(model.files, Device.parse("cpu")) as here:
        for batch in (requests, requests[:1], requests[1:4]):
            for far, near in zip(there.run(batch), here.run(batch), strict=True):
                np.testing.assert_array_equal(far[0].data, near[0].data)


@pytest.mark.parametrize("dtype", [d for d in DataType if d is not DataType.BYTES])
def test_every_fixed_size_type_goes_there_and_back(dtype):
    with open_session(onnx_models.identity(dtype)) as session:
        bits = np.arange(6 * KINDS[dtype].size, dtype=np.uint8) % (2 if dtype is DataType.BOOL else 100)
        x = tensor_from_buffer("x", dtype, (2, 3), bits.tobytes())
        for outputs in session.run([(x,), (x,)]) + session.run([(x,)]):
            assert outputs[0].data.dtype == KINDS[dtype].numpy
            assert outputs[0].data.tobytes() == x.data.tobytes()


def test_buffers_on_both_sides_follow_changing_shapes():
    with open_session(onnx_models.identity(max_rows=64)) as session:
        for width, count in ((3, 2), (700, 9), (1, 1), (3, 33), (0, 4), (700, 5)):
            requests = [(tensor("x", np.full((1, width), n)),) for n in range(count)]
            for n, (y,) in enumerate(session.run(requests)):
                assert np.array_equal(y.data, np.full((1, width), n))


def test_each_byte_is_gathered_once_sent_once_and_fetched_once():
    with open_session(onnx_models.identity()) as session:
        before = session.statistics()
        x = tensor("x", rows_of(2))
        session.run([(x,), (x,)])
        session.run([(x,)])
        after = session.statistics()
        assert after.gathered_bytes_total - before.gathered_bytes_total == 3 * x.nbytes
        assert after.uploaded_bytes_total - before.uploaded_bytes_total == 3 * x.nbytes
        assert after.downloaded_bytes_total - before.downloaded_bytes_total == 3 * x.nbytes


def test_outputs_belong_to_whoever_holds_them():
    with open_session(onnx_models.mlp()) as session:
        held = [session.run([(tensor("x", rows_of(4, n)),)])[0][0] for n in range(10)]
        copies = [y.data.copy() for y in held]
        for n in range(10):
            session.run([(tensor("x", rows_of(4, 100 + n)),)])
    assert all(np.array_equal(y.data, copy) for y, copy in zip(held, copies, strict=True))
    with pytest.raises(ValueError, match="read-only"):
        held[0].data[0, 0] = 1


def test_the_next_batch_goes_in_while_one_is_computed():
    backend = StagedCpu(copy_s=0.02)
    with open_session(onnx_models.looping(), backend) as session:
        handle, ended = session.handle(), []

        def long() -> None:
            with pytest.raises(ModelFailed):
                session.run([(tensor("rounds", [[1_000_000_000]], DataType.INT64),)], handle)
            ended.append(time.monotonic())

        def short() -> None:
            session.run([(tensor("rounds", [[7]], DataType.INT64),)])

        threads = [threading.Thread(target=long), threading.Thread(target=short)]
        threads[0].start()
        wait_until(lambda: uploads(backend) == 2)  # of the warm-up and of the long run, which computes now
        threads[1].start()
        wait_until(lambda: uploads(backend) == 3)
        assert not ended
        handle.terminate = True
        for thread in threads:
            thread.join()
        assert [when for what, when in backend.done if what == "upload"][2] < ended[0]


def uploads(backend: StagedCpu) -> int:
    return sum(what == "upload" for what, _ in backend.done)


def test_several_runs_at_once_do_not_meet():
    with open_session(onnx_models.mlp(), StagedCpu(copy_s=0.0005)) as session:
        wrong = []

        def work(seed: int) -> None:
            inputs = [(tensor("x", rows_of(1 + n % 3, seed + n)),) for n in range(6)]
            expected = [session.run([one])[0][0].data.copy() for one in inputs]
            for _ in range(20):
                for outputs, wanted in zip(session.run(inputs), expected, strict=True):
                    if not np.allclose(outputs[0].data, wanted, rtol=1e-5, atol=1e-6):
                        wrong.append(seed)

        threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_a_failed_run_leaves_nothing_under_way():
    with open_session(onnx_models.picky(), StagedCpu(copy_s=0.01)) as session:
        good, bad = tensor("index", [[3]], DataType.INT64), tensor("index", [[99]], DataType.INT64)
        for _ in range(3):
            with pytest.raises(ModelFailed, match="Gather"):
                session.run([(bad,)])
            assert session.run([(good,)])[0][0].data.tolist() == [[3]]


def test_closing_gives_the_device_its_memory_back():
    backend = StagedCpu()
    session = open_session(onnx_models.mlp(), backend)
    session.close()
    assert backend.released == [0]
    with pytest.raises(NotReady):
        session.run([(tensor("x", rows_of(1)),)])
