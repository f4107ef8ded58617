"""What a session gives back while nobody asks it anything, and that it does not grow while many do."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sandseal_host.runtime.device import Device
from sandseal_host.runtime.memory import resident_bytes
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support.onnx_models import softmax

MB = 1_000_000
CPU = Device.parse("cpu")

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what is resident")


def row(width: int) -> tuple[Tensor, ...]:
    return (Tensor("x", DataType.FP32, (1, width), np.ones((1, width), np.float32)),)


def test_a_session_that_rests_gives_back_what_its_largest_batch_took():
    model = softmax()
    with Session.open(model.files, CPU) as session:
        session.run([row(4_000_000)] * 8)  # 128 MB in the buffer, as much in the arena
        busy = resident_bytes()
        session.rest()  # it ran since the last time
        assert session.statistics().buffer_bytes == 128 * MB
        session.rest()
        assert session.statistics().buffer_bytes == 0
        assert busy - resident_bytes() > 200 * MB
        gathered = session.statistics().gathered_bytes_total
        assert gathered == 128 * MB  # a counter never goes back
        assert session.run([row(3)] * 2)[1][0].shape == (1, 3)


def test_rest_is_cheap_where_nothing_happened():
    model = softmax()
    with Session.open(model.files, CPU) as session:
        session.rest()
        session.rest()
        runs = session.statistics().runs_total
        session.rest()
        assert session.statistics().runs_total == runs
    session.rest()  # closed


@pytest.mark.slow
def test_ten_thousand_requests_of_any_shape_leave_nothing():
    """In a process of its own, where nobody else takes memory or gives it back."""
    found = json.loads(subprocess.check_output([sys.executable, str(Path(__file__).with_name("growth.py"))]))
    assert found["most"] < 60 * MB  # what the largest of them takes
    assert found["left"] < 5 * MB
