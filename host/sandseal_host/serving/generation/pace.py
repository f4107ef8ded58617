"""How much of the time the less urgent classes may have while a more urgent one decodes.

The rule: a tenth. What is done for those below costs nine times its seconds, which the more urgent ones then have to
themselves; so their tokens come as if they were nearly alone, and nobody below them starves.
"""

_OTHERS = 9  # seconds of the more urgent for each of the less urgent
_FORGET = 1 / 8


class Pace:
    """Seconds that the less urgent owe, and what a decode of so many rows takes."""

    def __init__(self) -> None:
        self._owed = 0.0
        self._decode_s: dict[int, float] = {}  # by rows

    def allows(self, rows: int) -> bool:
        """Whether the less urgent may have something now.

        Args:
            rows: of the more urgent; until it is known what a decode of them takes, nobody else takes part.
        """
        return self._owed <= 0 and rows in self._decode_s

    def prefilled(self, seconds: float, less_urgent: bool) -> None:
        """Count a chunk of a prompt.

        Args:
            seconds: that it took.
            less_urgent: somebody who decodes waited for it that is of a higher class.
        """
        if less_urgent:
            self._owed += _OTHERS * seconds

    def decoded(self, seconds: float, rows: int, urgent: int) -> None:
        """Count a decode.

        Args:
            seconds: that it took.
            rows: in it.
            urgent: of them, those of the highest class that gets on.
        """
        alone = self._decode_s.get(urgent, seconds)
        if rows > urgent:
            self._owed += _OTHERS * max(0.0, seconds - alone)
        else:
            self._owed = max(0.0, self._owed - seconds)
            self._decode_s[rows] = alone + (seconds - alone) * _FORGET
