"""How much of the time the less urgent classes may have while a more urgent one decodes.

The rule: a twelfth of what the more urgent have, earned before it is spent. So their tokens come nearly as if they were
alone, however short their answers are, and nobody below them starves. A prompt of those below is run in pieces of few
tokens, or that take as long as a decode of the more urgent.
"""

_SHARE = 1 / 12  # seconds for the less urgent for each of the more urgent
_FORGET = 1 / 8
_LEAST = 16  # tokens of a piece; of fewer each takes longer


class Pace:
    """Seconds that the less urgent have earned, and what runs take."""

    def __init__(self) -> None:
        self._earned = 0.0
        self._decode_s: dict[int, float] = {}  # by rows
        self._token_s = 0.0  # of a prompt

    def piece(self, tokens: int, urgent: int) -> int:
        """How many tokens of a less urgent prompt may be run now; 0 = none yet.

        Args:
            tokens: that could be.
            urgent: rows of the more urgent; until it is known what a decode of them takes, nobody else takes part.
        """
        alone = self._decode_s.get(urgent)
        if alone is None:
            return 0
        tokens = min(tokens, max(_LEAST, int(alone / self._token_s) if self._token_s else 0))
        return tokens if self._spends(tokens * self._token_s) else 0

    def joins(self, rows: int, urgent: int) -> bool:
        """Whether the less urgent may take part in a decode now.

        Args:
            rows: of all.
            urgent: of them, those of the more urgent.
        """
        alone = self._decode_s.get(urgent)
        if alone is None:
            return False
        return self._spends(max(0.0, self._decode_s.get(rows, alone * rows / urgent) - alone))

    def prefilled(self, seconds: float, tokens: int, less_urgent: bool) -> None:
        """Count a piece of a prompt.

        Args:
            seconds: that it took.
            tokens: of it.
            less_urgent: somebody who decodes waited for it that is of a higher class.
        """
        self._token_s = _mean(self._token_s or None, seconds / tokens)
        if less_urgent:
            self._earned -= seconds

    def copied(self, seconds: float) -> None:
        """Count copies of what less urgent sequences hold."""
        self._earned -= seconds

    def decoded(self, seconds: float, rows: int, urgent: int) -> None:
        """Count a decode.

        Args:
            seconds: that it took.
            rows: in it.
            urgent: of them, those of the highest class that gets on.
        """
        self._decode_s[rows] = _mean(self._decode_s.get(rows), seconds)
        alone = min(seconds, self._decode_s.get(urgent, seconds))
        self._earned += _SHARE * alone - (seconds - alone)

    def _spends(self, seconds: float) -> bool:
        """Whether so much was earned; what was earned beyond is forgotten, so that nobody saves up for a rush."""
        if self._earned < seconds:
            return False
        self._earned = seconds
        return True


def _mean(before: float | None, now: float) -> float:
    return now if before is None else before + (now - before) * _FORGET
