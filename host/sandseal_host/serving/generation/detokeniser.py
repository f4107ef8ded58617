"""An answer's text, out of its tokens as they come."""

import codecs
from collections.abc import Collection

from sandseal_host.serving.generation.stops import StopStrings
from sandseal_host.serving.generation.vocabulary import Vocabulary


class Detokeniser:
    """One answer's text: never half a character, and nothing that may still become a stop string.

    Bytes that are no UTF-8 become U+FFFD.

    Args:
        vocabulary: the model's.
        stops: end the answer; neither they nor what follows is part of it.
        shown: special tokens that are text here.
    """

    def __init__(self, vocabulary: Vocabulary, stops: StopStrings | None = None, shown: Collection[int] = ()) -> None:
        self._vocabulary, self._stops, self._shown = vocabulary, stops, shown
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held, self._state = "", 0
        self.stopped = False
        """Whether a stop string came."""

    def push(self, token: int) -> str:
        """Take a token; the text that can be sent now."""
        if self.stopped or (self._vocabulary.is_special(token) and token not in self._shown):
            return ""
        return self._released(self._decoder.decode(self._vocabulary.bytes_of(token)))

    def finish(self) -> str:
        """The rest of the text, for an answer that ended otherwise than by a stop string."""
        if self.stopped:
            return ""
        text = self._released(self._decoder.decode(b"", final=True))
        rest, self._held = "" if self.stopped else self._held, ""
        return text + rest

    def _released(self, text: str) -> str:
        if self._stops is None:
            return text
        held, state, stops = self._held + text, self._state, self._stops
        for end, character in enumerate(text, len(self._held) + 1):
            state = stops.step(state, character)
            if found := stops.found(state):
                self.stopped, self._held = True, ""
                return held[: end - found]
        self._state, keep = state, stops.held(state)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]
