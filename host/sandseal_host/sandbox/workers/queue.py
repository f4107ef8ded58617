"""Calls that wait for a worker, the most urgent first."""

import asyncio
import heapq
import time

from sandseal_host.errors import DeadlineExpired, QueueFull, ShuttingDown
from sandseal_host.sandbox.workers.call import Call, Stage

_LONGEST_TIMER = 1e6  # seconds; event loops do not take infinity


class CallQueue:
    """A bounded queue for each stage, all of them in one order of urgency; on an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heap: list[Call] = []
        self.expired = self.cancelled = 0

    def __len__(self) -> int:
        return len(self._heap)

    def first(self) -> Call | None:
        """The most urgent call; it goes on waiting."""
        return self._heap[0] if self._heap else None

    def admit(self, call: Call) -> None:
        """Let a new call wait, until its deadline.

        Raises:
            QueueFull: as many of its stage wait as may.
        """
        stage = call.stage
        if stage.waiting >= stage.max_waiting:
            raise QueueFull(f"{stage.waiting} calls of plugin {stage.label!r} wait already", plugin=stage.label)
        self.add(call)

    def add(self, call: Call) -> None:
        """Let a call wait that had waited before."""
        call.stage.waiting += 1
        heapq.heappush(self._heap, call)
        wait = min(max(call.deadline - time.monotonic(), 0.0), _LONGEST_TIMER)
        call.timer = self._loop.call_later(wait, self._expire, call)

    def pop(self) -> Call | None:
        """The most urgent call, which waits no longer; None where there is none."""
        while self._heap:
            call = heapq.heappop(self._heap)
            self._left(call)
            if time.monotonic() < call.deadline:
                return call
            self._refuse_late(call)
        return None

    def cancel(self, call: Call) -> None:
        """Take out a call whose caller has left."""
        self.cancelled += self._take_out(call)

    def refuse(self, stage: Stage | None = None) -> None:
        """Refuse the calls of a stage that is being unloaded, or all."""
        for call in [call for call in self._heap if stage in (None, call.stage)]:
            self._take_out(call)
            call.settle(ShuttingDown(f"plugin {call.stage.label!r} is being unloaded"))

    def _take_out(self, call: Call) -> bool:
        if call not in self._heap:
            return False
        self._heap.remove(call)
        heapq.heapify(self._heap)
        self._left(call)
        return True

    def _left(self, call: Call) -> None:
        call.stage.waiting -= 1
        if call.timer:
            call.timer.cancel()
            call.timer = None

    def _expire(self, call: Call) -> None:
        self._take_out(call)
        self._refuse_late(call)

    def _refuse_late(self, call: Call) -> None:
        self.expired += 1
        label = call.stage.label
        call.settle(DeadlineExpired(f"the request's time ran out before plugin {label!r} could start", stage=label))
