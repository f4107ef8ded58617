"""Sequences: requests that go on where the one before them ended, for models whose bundle names their state.

The state lives in the host, not in a session, so any instance and any batch may take the next step. One rule: a step
counts when its answer is there. One that fails, expires or is given up leaves the state as it was, to be sent again.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic

from sandseal_host.errors import DeadlineExpired, QueueFull, RequestInvalid, SequencesFull, TooLarge
from sandseal_host.serving.lost_sequences import Key, LostSequences
from sandseal_host.serving.request import Request
from sandseal_host.serving.sequence import Sequence
from sandseal_signing.manifest import ModelSpec

_MAX_WAITING = 64  # steps of one sequence


@dataclass(frozen=True, slots=True)
class SequenceStatistics:
    """A model's sequences.

    Args:
        open: that were begun, and neither ended nor left alone for too long.
        state_bytes: of the states that are kept for them.
        begun_total, ended_total: by their clients.
        expired_total: left alone for too long.
        refused_total: that could not begin, since there was no room for them or for their states.
    """

    open: int
    state_bytes: int
    begun_total: int
    ended_total: int
    expired_total: int
    refused_total: int


class Sequences:
    """A model's sequences, by tenant; lives on the event loop.

    Args:
        model: what the request's error messages call it.
        spec: of the model, which has states.
        idle_s: seconds after which a sequence that nobody goes on with is forgotten.
        most: sequences that may be open, three quarters of them by one tenant.
        most_bytes: that their states may have, likewise.
        lost: told of those that end with the model.
        clock: seconds, growing.
    """

    def __init__(
        self,
        model: str,
        spec: ModelSpec,
        *,
        idle_s: float,
        most: int,
        most_bytes: int,
        lost: LostSequences,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._model, self._spec, self._idle_s, self._clock = model, spec, idle_s, clock
        self._most, self._most_bytes, self._lost = most, most_bytes, lost
        self._open: OrderedDict[Key, Sequence] = OrderedDict()  # least recently used first
        self._held: Counter[str] = Counter()  # bytes, by tenant
        self._begun = self._ended = self._expired = self._refused = 0
        self._timer: asyncio.TimerHandle | None = None  # while any is open

    @asynccontextmanager
    async def step(self, request: Request) -> AsyncIterator[Sequence]:
        """The sequence that a request belongs to, once the steps before it are over.

        Raises:
            RequestInvalid: it names no sequence, or one that was not begun.
            SequenceLost: the model was unloaded while its sequence was open.
            SequencesFull: it begins one, and as many are open as may.
            QueueFull: too many steps of its sequence wait.
            DeadlineExpired: its turn did not come in time.
        """
        key, sequence = self._enter(request)
        sequence.steps += 1
        try:
            await self._take_turn(sequence, request)
            counts = False
            try:
                yield sequence
                counts = True
            finally:
                sequence.settle(counts=counts)
                sequence.turn.release()
            if request.step is not None and request.step.end:
                self._end(key, sequence)
        finally:
            sequence.steps -= 1
            sequence.used = self._clock()
            if self._open.get(key) is sequence:
                self._open.move_to_end(key)

    def expire(self) -> None:
        """Forget the sequences that were left alone for too long."""
        now = self._clock()
        for key, sequence in list(self._open.items()):
            if sequence.steps:
                continue
            if sequence.used + self._idle_s > now:
                break
            self._drop(key)
            self._expired += 1

    def close(self) -> None:
        """End all of them with the model; steps that are under way end."""
        self._lost.add(self._model, self._open)
        for key in list(self._open):
            self._drop(key)
        if self._timer is not None:
            self._timer.cancel()

    def statistics(self) -> SequenceStatistics:
        """The counts at this moment."""
        return SequenceStatistics(
            len(self._open), self._held.total(), self._begun, self._ended, self._expired, self._refused
        )

    def _enter(self, request: Request) -> tuple[Key, Sequence]:
        asked = request.step
        if asked is None:
            raise RequestInvalid(
                f"{self._model!r} goes through sequences, and the request names none", hint="send a sequence_id"
            )
        self.expire()
        key = request.tenant, asked.id
        sequence = self._open.get(key)
        if asked.start:
            sequence = self._begin(key)
        elif sequence is None:
            self._lost.check(self._model, key)
            raise RequestInvalid(
                f"there is no sequence {asked.id[:80]!r}: it was not begun, has ended, or was left alone for too long",
                hint="send sequence_start with its first request",
                sequence=asked.id[:80],
            )
        if sequence.steps >= _MAX_WAITING:
            raise QueueFull(f"{sequence.steps} steps of sequence {asked.id[:80]!r} wait", retry_after=1.0)
        self._open.move_to_end(key)
        return key, sequence

    def _begin(self, key: Key) -> Sequence:
        """A new sequence; one of the same name is over, as it is to Triton."""
        if key in self._open:
            self._drop(key)
        elif self._full(key[0]):
            self._refused += 1
            raise SequencesFull(f"{len(self._open)} sequences of {self._model!r} are open", retry_after=self._idle_s)
        self._lost.discard(self._model, key)
        self._begun += 1
        sequence = self._open[key] = Sequence(self._spec, partial(self._reserve, key))
        if self._timer is None:
            self._look_later()
        return sequence

    def _full(self, tenant: str) -> bool:
        """Whether a tenant may begin no more; none takes the last quarter of the places, which are for others."""
        taken, share = len(self._open), max(1, self._most * 3 // 4)
        return taken >= self._most or (taken >= share and sum(key[0] == tenant for key in self._open) >= share)

    def _reserve(self, key: Key, sequence: Sequence, wanted: int) -> None:
        """Count a sequence's states before it has any; by tenants as in `_full`."""
        if self._open.get(key) is not sequence:  # begun anew meanwhile: it ends with the steps that it has
            return
        share, held = self._most_bytes * 3 // 4, self._held
        if wanted > share:
            raise TooLarge(
                f"the states of a sequence of so many rows have {wanted} bytes, over {share}",
                hint="send fewer rows, or ask the operator to raise SANDSEAL_SEQUENCE_MIB",
                got=wanted, limit=share,
            )  # fmt: skip
        more = wanted - sequence.reserved
        if held.total() + more > self._most_bytes or held[key[0]] + more > share:
            self._refused += 1
            raise SequencesFull(
                f"the states of {self._model!r} have {held.total()} bytes, and this sequence's need {more} more",
                hint="end those that are over with sequence_end, or ask the operator to raise SANDSEAL_SEQUENCE_MIB",
                retry_after=self._idle_s,
            )
        held[key[0]] += more
        sequence.reserved = wanted

    def _drop(self, key: Key) -> None:
        self._held[key[0]] -= self._open.pop(key).reserved

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._look)

    def _look(self) -> None:
        self._timer = None
        self.expire()
        if self._open:
            self._look_later()

    async def _take_turn(self, sequence: Sequence, request: Request) -> None:
        if sequence.steps == 1:  # none is before it
            await sequence.turn.acquire()
            return
        left = request.deadline - self._clock()
        try:
            async with asyncio.timeout(None if left == inf else left):
                await sequence.turn.acquire()
        except TimeoutError:
            raise DeadlineExpired("the steps before it in its sequence took all of its time") from None

    def _end(self, key: Key, sequence: Sequence) -> None:
        self._ended += 1
        if self._open.get(key) is sequence:
            self._drop(key)
