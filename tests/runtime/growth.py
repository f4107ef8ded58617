"""Prints, as JSON, how a process grows by ten thousand requests of any shape: `most` while they come, `left` after."""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sandseal_host.runtime.device import Device
from sandseal_host.runtime.memory import resident_bytes
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support.onnx_models import softmax

RNG = np.random.default_rng(0)


def row(width: int) -> tuple[Tensor, ...]:
    return (Tensor("x", DataType.FP32, (1, width), np.ones((1, width), np.float32)),)


def answer(session: Session, count: int) -> int:
    while count > 0:
        many, width = int(RNG.integers(1, 33)), int(RNG.integers(1, 20_000))
        assert len(session.run([row(width)] * many)) == many
        count -= many
    return resident_bytes()


def rest(session: Session) -> int:
    session.rest()
    session.rest()
    return resident_bytes()


model = softmax()
with Session.open(model.files, Device.parse("cpu")) as session:
    answer(session, 2_000)
    before = rest(session)
    most = max(answer(session, 1_000) for _ in range(10))
    print(json.dumps({"most": most - before, "left": rest(session) - before}))
