"""Whose tokens are run next: the rule of urgency is that of all requests, with slots for instances.

A slot goes to the sequence with the earliest virtual deadline, whether it waits for the first time or is paused. Where
none is free, one that has a slot is paused for it: one whose reader is behind, else one of a lower class, else one of a
tenant that has more slots than the other by its weight. A prompt is run in chunks, one sequence's at a time, each
between two decodes; while a higher class decodes, those below have a twelfth of the time, prompts and rows in turn.

Pure: times come in as arguments (seconds on any monotonic clock); no clock, event loop, thread, lock or decoder.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.admission import Admission
from sandseal_host.serving.generation.pace import Pace
from sandseal_host.serving.generation.seats import Action, Seats
from sandseal_host.serving.generation.sequence import TURN, Sequence
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.heap import TicketHeap
from sandseal_host.serving.scheduler import make_queues
from sandseal_host.serving.ticket import TicketState

_OTHERS = 9  # tokens of higher classes for each that a late one of a lower class is granted
_NEVER, _AT_ONCE = float("inf"), float("-inf")


@dataclass(frozen=True, slots=True)
class Prefill:
    """Run the next tokens of the sequence that is in the slot for prompts.

    Args:
        sequence: that one.
        tokens: how many.
        last: none are left then.
        below: a sequence of a higher class decodes, and waits meanwhile.
    """

    sequence: Sequence
    tokens: int
    last: bool
    below: bool


@dataclass(frozen=True, slots=True)
class Decode:
    """Run one token of each row, from slot 0 on.

    Args:
        rows: of them, those that are held do not get on.
        urgent: how many of the first are of the highest class that gets on, or above.
    """

    rows: tuple[Sequence, ...]
    urgent: int


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done next: copies, in this order, or a run."""

    actions: tuple[Action, ...] = ()
    run: Prefill | Decode | None = None


@dataclass(frozen=True, slots=True)
class GenerationCounts:
    """A scheduler's counts.

    Args:
        waiting: sequences that have had no turn yet, by class.
        prefilling, decoding, paused: sequences.
        held: those of them that do not get on: their readers are behind, or their logits are being looked at.
        refused: so far, by error code.
        expired_total: whose time ran out.
        cancelled_total: that nobody wanted any more.
        pauses_total: how often one was paused.
    """

    waiting: Mapping[str, int]
    prefilling: int
    decoding: int
    paused: int
    held: int
    refused: Mapping[str, int]
    expired_total: int
    cancelled_total: int
    pauses_total: int


class GenerationScheduler:
    """Sequences from their arrival to their end.

    Args:
        settings: bounds of slots, chunks and queues.
    """

    def __init__(self, settings: GenerationSettings) -> None:
        # Rows are tokens here. What is not more than all slots hold has its turn at once, however long that is.
        queue = replace(
            settings.queue,
            max_rows=settings.slots * settings.context,
            max_queued_rows=settings.queue.max_requests * settings.context,
        )
        self._chunk, self._weights = settings.chunk, queue.weights
        self._queues = make_queues(queue, settings.slots)  # most urgent class first
        self._by_level = {queue.level: queue for queue in self._queues}
        self._admission = Admission(queue)
        self._waiting: dict[int, Sequence] = {}  # by request id
        self._lines: dict[tuple[int, str], TicketHeap] = {}  # that wait, by class and tenant
        self._expiry = TicketHeap()
        self._paused: list[Sequence] = []
        self._seats = Seats(settings.slots)
        self._pace = Pace()
        self._order = 0
        self._credit = 0  # tokens of higher classes, for late ones of lower classes
        self._prefilled = 0  # tokens since the last decode
        self._rows_next = False  # rows of lower classes have their turn before the prompt of one
        self._ended_at = _AT_ONCE
        self._expired = self._cancelled = self._pauses = 0

    def add(self, sequence: Sequence, now: float) -> None:
        """Queue a sequence.

        Raises:
            RequestInvalid: its id waits already.
            DeadlineExpired, QueueFull, DeadlineImpossible: see `Scheduler.add`; rows are tokens here.
        """
        request = sequence.request
        if request.id in self._waiting:
            raise RequestInvalid(f"a request with the id {request.id} waits already", id=request.id)
        queue = self._by_level[sequence.level]
        self._admission.check(sequence, queue, now)
        self._order += 1
        sequence.order, sequence.queued, sequence.state = self._order, now, TicketState.QUEUED
        self._waiting[request.id] = sequence
        queue.enter(sequence, now)
        line = self._lines.setdefault((sequence.level, sequence.tenant), TicketHeap())
        line.push(sequence.urgency, sequence, len(self._waiting))
        self._expiry.push(sequence.expires, sequence, len(self._waiting))

    def plan(self, now: float) -> Step:
        """What should be done next; `done` must be told of a run before this is called again."""
        while (sequence := next((s for s in self._candidates(now) if self._make_room(s, now)), None)) is not None:
            self._seat(sequence, now)
        actions = self._seats.actions()
        return Step(actions) if actions else Step(run=self._run())

    def done(self, run: Prefill | Decode, seconds: float) -> None:
        """Count a run, and give a sequence that has been prefilled its row, unless it has ended."""
        if isinstance(run, Prefill):
            self._prefilled += run.tokens
            run.sequence.turn += run.tokens
            self._pace.prefilled(seconds, run.tokens, run.below)
            self._rows_next = self._rows_next or run.below
            if run.last and run.sequence.state is TicketState.PREFILLING:
                self._seats.join().state = TicketState.DECODING
            return
        self._prefilled = 0
        for sequence in run.rows:
            sequence.turn += not sequence.held
        self._pace.decoded(seconds, len(run.rows), run.urgent)
        self._rows_next = self._rows_next and len(run.rows) == run.urgent
        self._credit = min(self._credit + run.urgent, _OTHERS * TURN)

    def copied(self, actions: tuple[Action, ...], seconds: float) -> None:
        """Count copies, which those who decode wait for, too."""
        top = self._top()
        if top is not None and any(action.sequence.level > top for action in actions):
            self._pace.copied(seconds)

    def end(self, sequence: Sequence, now: float, state: TicketState = TicketState.DONE) -> None:
        """Take out a sequence that is complete, or that nobody wants; in whatever state."""
        before, sequence.state = sequence.state, state
        self._cancelled += state is TicketState.CANCELLED
        self._expired += state is TicketState.EXPIRED
        queue = self._by_level[sequence.level]
        if before is TicketState.QUEUED:
            self._leave_queue(sequence)
        elif before is TicketState.PAUSED:
            self._paused.remove(sequence)
            sequence.kv = None
        elif before in (TicketState.PREFILLING, TicketState.DECODING):
            self._seats.leave(sequence)
            if queue.requests:
                queue.rate.record(sequence.request.rows, now - max(sequence.queued, self._ended_at))
            self._ended_at = now

    def overdue(self, now: float) -> list[Sequence]:
        """Take out those that waited too long, and all whose deadline has passed."""
        late = [sequence for sequence in self._started() if sequence.request.deadline <= now]
        while (first := self._expiry.first()) is not None and first.expires <= now:
            late.append(self._waiting[first.request.id])
            self._expiry.pop()
        for sequence in late:
            self.end(sequence, now, TicketState.EXPIRED)
        return late

    def wake_at(self) -> float:
        """When `overdue` has something, if nothing else happens."""
        first = self._expiry.first()
        expiry = first.expires if first else _NEVER
        return min([expiry, *(sequence.request.deadline for sequence in self._started())])

    def paused_bytes(self) -> int:
        """Bytes of the copies of those that are paused."""
        return sum(sequence.kv.nbytes for sequence in self._paused if sequence.kv)

    def all(self) -> list[Sequence]:
        """All that have not ended."""
        return [*self._waiting.values(), *self._started()]

    def counts(self) -> GenerationCounts:
        """The counts at this moment."""
        started = list(self._started())
        return GenerationCounts(
            waiting={queue.service_class.name: queue.requests for queue in self._queues},
            prefilling=int(self._seats.prefilling is not None),
            decoding=len(self._seats.rows),
            paused=len(self._paused),
            held=sum(sequence.held for sequence in started),
            refused=dict(self._admission.refused),
            expired_total=self._expired,
            cancelled_total=self._cancelled,
            pauses_total=self._pauses,
        )

    def _started(self) -> Iterator[Sequence]:
        yield from self._seats.taken()
        yield from self._paused

    def _leave_queue(self, sequence: Sequence) -> None:
        del self._waiting[sequence.request.id]
        self._by_level[sequence.level].leave(sequence)

    # Who gets a slot

    def _candidates(self, now: float) -> list[Sequence]:
        """The sequences that could use a slot, in the order in which they should have one."""
        firsts = {line: heap.first() for line, heap in self._lines.items()}
        self._lines = {line: heap for line, heap in self._lines.items() if firsts[line]}
        heads = [self._waiting[first.request.id] for first in firsts.values() if first]
        able = [s for s in [*heads, *self._paused] if self._usable(s)]
        highest = min((sequence.level for sequence in able), default=0)
        # A late one of a lower class does not pass those above it by being late.
        ahead = [s for s in able if s.level == highest or s.virtual_deadline >= now or self._affords()]
        return sorted(ahead, key=lambda sequence: (sequence.virtual_deadline, sequence.order))

    def _usable(self, sequence: Sequence) -> bool:
        """Whether a slot would be of use to it now."""
        if sequence.held or (sequence.state is TicketState.PAUSED and sequence.length and sequence.kv is None):
            return False  # it would not get on, or its copy is still to be made
        other = self._seats.prefilling
        return sequence.whole or other is None or (other.level > sequence.level and not other.protected)

    def _affords(self) -> bool:
        """Whether those above a late one of a lower class have had their nine tenths."""
        return self._credit >= _OTHERS * TURN and not any(s.granted for s in self._seats.taken())

    def _make_room(self, candidate: Sequence, now: float) -> bool:
        """See that there is a slot for a sequence, if need be by pausing another."""
        seats, other = self._seats, self._seats.prefilling
        if other is not None and not candidate.whole and other.level > candidate.level:
            self._pause(other, now)
        full = [level for level in self._by_level if level <= candidate.level and self._full(level)]
        if not full:
            return True
        victims = [s for s in seats.taken() if s.level >= max(full) and self._gives_way(s, candidate, now)]
        if not victims:
            return False
        self._pause(max(victims, key=lambda s: (s.behind, s.level, s.virtual_deadline, s.order)), now)
        return True

    def _full(self, level: int) -> bool:
        """Whether a class and those below have all slots that they may have; the rest is reserved for those above."""
        return self._seats.count(lambda s: s.level >= level) >= self._by_level[level].limit

    def _gives_way(self, sequence: Sequence, candidate: Sequence, now: float) -> bool:
        """Whether one that has a slot must give it up for a candidate."""
        if sequence.behind:
            return True
        if sequence.protected:
            return False
        late, turn_over = candidate.virtual_deadline < now, sequence.turn >= TURN
        if sequence.level != candidate.level:
            return sequence.level > candidate.level or (late and turn_over and self._affords())
        if sequence.tenant == candidate.tenant:
            return False
        mine, others = self._share(candidate), self._share(sequence)
        # With a slot moved from one tenant to the other, the other must not be worse off than this one is now.
        return others - self._part(sequence) >= mine + (0 if late and turn_over else self._part(candidate))

    def _share(self, sequence: Sequence) -> float:
        """Slots of its tenant in its class, by weight."""
        count = self._seats.count(lambda s: s.tenant == sequence.tenant and s.level == sequence.level)
        return count * self._part(sequence)

    def _part(self, sequence: Sequence) -> float:
        return 1 / self._weights.get(sequence.tenant, 1.0)

    def _pause(self, sequence: Sequence, now: float) -> None:
        self._seats.pause(sequence)
        sequence.state, sequence.granted = TicketState.PAUSED, False
        if sequence.turn >= TURN:  # it has had its turn, and stands behind those that are waiting for theirs
            target = self._by_level[sequence.level].service_class.target_s
            sequence.virtual_deadline = max(sequence.virtual_deadline, now + target)
        self._paused.append(sequence)
        self._pauses += 1

    def _seat(self, sequence: Sequence, now: float) -> None:
        if sequence.level > self._queues[0].level and sequence.virtual_deadline < now and self._affords():
            sequence.granted, self._credit = True, 0
        sequence.turn = 0
        if sequence.state is TicketState.PAUSED:
            self._paused.remove(sequence)
        else:
            self._leave_queue(sequence)
        if sequence.whole:
            sequence.state = TicketState.DECODING
            self._seats.resume(sequence)
        else:
            sequence.state = TicketState.PREFILLING
            self._seats.begin(sequence)

    # What runs

    def _top(self) -> int | None:
        """The highest class that decodes."""
        return next((sequence.level for sequence in self._seats.rows if not sequence.held), None)

    def _run(self) -> Prefill | Decode | None:
        top, prefilling = self._top(), self._seats.prefilling
        if prefilling and (top is None or prefilling.level < top):
            return _prefill(prefilling, self._chunk)  # those who decode, if any, are less urgent, and wait
        if top is None:
            return None
        left = self._chunk - self._prefilled
        if prefilling and prefilling.level == top and left > 0:
            return _prefill(prefilling, left)
        urgent, rows = self._seats.up_to(top), self._seats.rows
        joined = any(not sequence.held for sequence in rows[urgent:])
        if prefilling and prefilling.level > top and left > 0 and not (self._rows_next and joined):
            if tokens := self._pace.piece(min(left, prefilling.pending), urgent):
                return _prefill(prefilling, tokens, below=True)
            joined = False  # it is the prompt's turn, as soon as there is time for it
        joined = joined and self._pace.joins(len(rows), urgent)
        return Decode(tuple(rows if joined else rows[:urgent]), urgent)


def _prefill(sequence: Sequence, tokens: int, *, below: bool = False) -> Prefill:
    tokens = min(tokens, sequence.pending)
    return Prefill(sequence, tokens, tokens == sequence.pending, below)
