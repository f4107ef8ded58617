"""Outputs on their way out of a worker's region: what is described is checked, copied, and the copy checked."""

from itertools import chain
from math import prod

import numpy as np

from sandseal_host.sandbox.workers.call import Call
from sandseal_host.sandbox.workers.process import WorkerProcess
from sandseal_host.sandbox.workers.protocol import Answer
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType

LONG = 4 << 20  # bytes; to copy them takes about a millisecond
_MANY = 1_000  # BYTES elements; to walk over them takes about a quarter of one


class Taking:
    """The outputs that one answer describes; nothing is copied yet.

    Args:
        worker: gave the answer.
        call: what it answers.
        answer: not an error.

    Raises:
        BrokenMessage: it describes what cannot be.
    """

    def __init__(self, worker: WorkerProcess, call: Call, answer: Answer) -> None:
        self.worker, self.call, self.answer = worker, call, answer
        places = call.stage.check(call, answer.outputs)
        self._copies = [np.empty(output.size, np.uint8) for output in answer.outputs]
        parts = zip(places, self._copies, strict=True)
        self.steps = chain.from_iterable(worker.region.read(call.slot, at, copy) for at, copy in parts)

    @property
    def is_long(self) -> bool:
        """Whether copying or checking them would hold an event loop up."""
        outputs, specs = self.answer.outputs, self.call.stage.form.spec.outputs
        walked = (prod(o.shape) for o, spec in zip(outputs, specs, strict=True) if spec.dtype is DataType.BYTES)
        return sum(output.size for output in outputs) > LONG or max(walked, default=0) > _MANY

    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs; `steps`, which copy them, must have been taken.

        Raises:
            BrokenMessage: their data is not what the spec allows.
        """
        return self.call.stage.outputs(self.answer.outputs, self._copies)
