import threading
from contextlib import ExitStack

import numpy as np

from sandseal_host.runtime.memory import DeviceMemory
from sandseal_host.runtime.replicas import Replicas
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support import onnx_models
from support.staged_device import StagedCpu, staged

X = Tensor("x", DataType.FP32, (2, 128), np.ones((2, 128), np.float32))


def test_each_device_has_as_many_threads_as_any_other():
    model, backend = onnx_models.mlp(), StagedCpu((DeviceMemory(1, 1),) * 2)
    with ExitStack() as opened:
        sessions = [opened.enter_context(Session.open(model.files, staged(index, backend))) for index in (0, 1)]
        replicas = Replicas(sessions)
        wanted = sessions[0].run([(X,)])[0][0].data
        before = [session.statistics().runs_total for session in sessions]

        def work() -> None:
            replicas.settle()
            for _ in range(5):
                assert np.array_equal(replicas.run([(X,)], replicas.handle())[0][0].data, wanted)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        runs = [session.statistics().runs_total - each for session, each in zip(sessions, before, strict=True)]
        assert runs == [10, 10]


def test_they_are_one_model():
    model = onnx_models.mlp(max_rows=8)
    with Session.open(model.files, staged()) as session:
        replicas = Replicas([session])
        assert (len(replicas), replicas.max_rows) == (1, 8)
        assert replicas.bucket((X,)) == session.bucket((X,))
        assert replicas.resident == {"cuda:0": session.statistics().resident_bytes}
        assert replicas.run([(X,)])[0][0].shape == (2, 10)  # a thread that never settled
        replicas.close()
        assert session.closed
