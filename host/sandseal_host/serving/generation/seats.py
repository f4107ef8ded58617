"""Which sequence is in which slot.

The rows of a decode batch are the slots from 0 on, the most urgent classes first: so that those of a class and above
are a batch of their own. A prompt is run in the slot behind all of them, and then moved to its row.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sandseal_host.serving.generation.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Move:
    """Copy what a sequence has by then from a slot into another."""

    sequence: Sequence
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Save:
    """Take a sequence out of its slot: keep a copy, or forget its keys and values."""

    sequence: Sequence
    slot: int


@dataclass(frozen=True, slots=True)
class Restore:
    """Bring a sequence's copy into a slot."""

    sequence: Sequence
    slot: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Look what is known of a sequence's first tokens, and bring it into the slot that it is prefilled in."""

    sequence: Sequence
    slot: int


Action = Move | Save | Restore | Begin


class Seats:
    """The rows, the sequence that is prefilled, and what is to be copied so that each lies where it should.

    Args:
        slots: how many rows there may be; the slot behind them is where prompts are run.
    """

    def __init__(self, slots: int) -> None:
        self._slot = slots
        self.rows: list[Sequence] = []
        self.prefilling: Sequence | None = None
        self._actions: list[Action] = []

    def taken(self) -> list[Sequence]:
        """All that have a seat."""
        return [*self.rows, self.prefilling] if self.prefilling else self.rows

    def count(self, which: Callable[[Sequence], bool]) -> int:
        """How many of those that have a seat are such."""
        return sum(1 for sequence in self.taken() if which(sequence))

    def up_to(self, level: int) -> int:
        """How many rows are of this class and above; they are the first."""
        return sum(1 for sequence in self.rows if sequence.level <= level)

    def begin(self, sequence: Sequence) -> None:
        """Let a sequence be prefilled, which nobody else is."""
        self.prefilling = sequence
        self._actions.append((Restore if sequence.kv else Begin)(sequence, self._slot))

    def join(self) -> Sequence:
        """Give the sequence that is prefilled its row."""
        sequence = self.prefilling
        assert sequence is not None  # noqa: S101  # the scheduler's own state
        self.prefilling = None
        self._actions.append(Move(sequence, self._slot, self._open(sequence)))
        return sequence

    def resume(self, sequence: Sequence) -> None:
        """Give a sequence whose copy lacks nothing a row."""
        self._actions.append(Restore(sequence, self._open(sequence)))

    def pause(self, sequence: Sequence) -> None:
        """Take its seat away, but not what it holds."""
        slot = self._slot if sequence is self.prefilling else self.rows.index(sequence)
        self._actions.append(Save(sequence, slot))
        self.leave(sequence)

    def leave(self, sequence: Sequence) -> None:
        """Take its seat away; the last row of its class and of each below fills the hole before it."""
        if sequence is self.prefilling:
            self.prefilling = None
            return
        hole, rows = self.rows.index(sequence), self.rows
        for level in sorted({each.level for each in rows[hole:]}):
            last = self.up_to(level) - 1
            self._shift(last, hole)
            hole = last
        rows.pop()

    def actions(self) -> tuple[Action, ...]:
        """What is to be copied, in this order, since this was called last."""
        actions, self._actions = tuple(self._actions), []
        return actions

    def _open(self, sequence: Sequence) -> int:
        """Make room behind the rows of its class: the first of each class below goes behind its last."""
        below = sorted({each.level for each in self.rows if each.level > sequence.level}, reverse=True)
        hole, firsts = len(self.rows), [self.up_to(level - 1) for level in below]
        self.rows.append(sequence)
        for first in firsts:
            self._shift(first, hole)
            hole = first
        self.rows[hole] = sequence
        return hole

    def _shift(self, source: int, target: int) -> None:
        if source != target:
            self.rows[target] = self.rows[source]
            self._actions.append(Move(self.rows[target], source, target))
