"""One model on several devices."""

import threading
from collections.abc import Hashable, Sequence
from itertools import cycle

import onnxruntime

from sandseal_host.runtime.session import Session
from sandseal_host.tensors import Tensor
from sandseal_signing.variants import Precision


class Replicas:
    """Sessions of one model as one runner: each thread that settles here has one of them, in turn.

    So every device has as many runs in flight as it has threads, and a thread stays on its device's processors.

    Args:
        sessions: one a device.
        precision: what their graph computes in.
    """

    def __init__(self, sessions: Sequence[Session], precision: Precision = Precision.FP32) -> None:
        self.precision = precision
        self._sessions = tuple(sessions)
        self._turns = cycle(self._sessions)
        self._mine = threading.local()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def max_rows(self) -> int:
        """See `Session.max_rows`."""
        return self._sessions[0].max_rows

    def bucket(self, inputs: tuple[Tensor, ...]) -> Hashable:
        """See `Session.bucket`."""
        return self._sessions[0].bucket(inputs)

    def handle(self) -> onnxruntime.RunOptions:
        """See `Session.handle`."""
        return self._sessions[0].handle()

    def settle(self) -> None:
        """Give the calling thread the next session, and keep it near that one's device."""
        self._mine.session = next(self._turns)
        self._mine.session.settle()

    def run(
        self, requests: Sequence[tuple[Tensor, ...]], handle: onnxruntime.RunOptions | None = None
    ) -> list[tuple[Tensor, ...]]:
        """See `Session.run`; on the calling thread's session, or on any where it has none."""
        session: Session = getattr(self._mine, "session", self._sessions[0])
        return session.run(requests, handle)

    @property
    def resident(self) -> dict[str, int]:
        """By device: what its session took; see `SessionStatistics`."""
        return {str(session.device): session.statistics().resident_bytes for session in self._sessions}

    def close(self) -> None:
        """See `Session.close`."""
        for session in self._sessions:
            session.close()
