"""Sequences whose model was unloaded under them: their next step is told that the state is gone, and not begun anew."""

from collections.abc import Iterable

from sandseal_host.errors import SequenceLost

_MOST = 10_000  # names; the oldest are forgotten first

Key = tuple[str, str]
"""A tenant, and what it calls the sequence."""


class LostSequences:
    """Their names, of all models of a host; lives on the event loop."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, Key], None] = {}  # in the order in which they were lost

    def add(self, model: str, keys: Iterable[Key]) -> None:
        """Note the sequences that were open when a model was unloaded."""
        self._names |= dict.fromkeys((model, key) for key in keys)
        for name in list(self._names)[: max(0, len(self._names) - _MOST)]:
            del self._names[name]

    def check(self, model: str, key: Key) -> None:
        """Raise SequenceLost for a sequence that was lost."""
        if (model, key) in self._names:
            raise SequenceLost(
                f"the state of sequence {key[1][:80]!r} is gone: {model!r} was unloaded after its last step, to make "
                "room or for another version",
                sequence=key[1][:80],
            )

    def discard(self, model: str, key: Key) -> None:
        """Forget a sequence that is begun anew."""
        self._names.pop((model, key), None)
