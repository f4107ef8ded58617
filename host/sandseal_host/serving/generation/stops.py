"""Texts that end an answer, found while it grows, whatever tokens they come in."""

from collections import deque
from collections.abc import Sequence

from sandseal_host.errors import RequestInvalid

MAX_CHARACTERS = 8_192  # of all stop strings of a request together; the automaton of so many is made in about 10 ms


class StopStrings:
    """Stop strings as one automaton, which looks at each character once (Aho and Corasick, 1975).

    A state is the longest end of the text so far that some stop string begins with. It is made once for a request.

    Args:
        strings: none of them empty.

    Raises:
        RequestInvalid: one is empty, or they are too long together.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        if not all(strings):
            raise _invalid("a stop string is empty")
        if (size := sum(map(len, strings))) > MAX_CHARACTERS:
            raise _invalid(f"the stop strings have {size} characters together, over {MAX_CHARACTERS}")
        self._next: list[dict[str, int]] = [{}]
        self._depth, self._stop = [0], [0]
        for string in strings:
            self._add(string)
        self._back = [0] * len(self._next)
        self._link()

    def step(self, state: int, character: str) -> int:
        """The state after one more character; 0 is the first."""
        while state and character not in self._next[state]:
            state = self._back[state]
        return self._next[state].get(character, 0)

    def held(self, state: int) -> int:
        """How many of the last characters may be the beginning of a stop string."""
        return self._depth[state]

    def found(self, state: int) -> int:
        """How many of the last characters are a stop string, the longest one; 0 where there is none."""
        return self._stop[state]

    def _add(self, string: str) -> None:
        state = 0
        for character in string:
            if character not in self._next[state]:
                self._next[state][character] = len(self._next)
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._stop.append(0)
            state = self._next[state][character]
        self._stop[state] = len(string)

    def _link(self) -> None:
        """Find for each state the next shorter one that ends alike, the nearest states first."""
        states = deque(self._next[0].values())
        while states:
            state = states.popleft()
            for character, after in self._next[state].items():
                self._back[after] = self.step(self._back[state], character)
                self._stop[after] = self._stop[after] or self._stop[self._back[after]]
                states.append(after)


def _invalid(message: str) -> RequestInvalid:
    return RequestInvalid(message, hint="give fewer, shorter stop strings, and no empty one")
