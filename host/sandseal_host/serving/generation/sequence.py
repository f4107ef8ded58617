"""What changes about a generation while it waits and runs: its tokens, where they are, and whose turn it is."""

from typing import Any

from sandseal_host.serving.generation.ports import Kv
from sandseal_host.serving.generation.request import GenerationRequest
from sandseal_host.serving.ticket import Ticket

TURN = 64
"""Tokens after which a sequence may have to share its slot with others that are late."""


class Sequence(Ticket):
    """One generation's place in a lane.

    Args:
        request: what is asked.
        answer: whatever the owner answers through; the scheduler never looks at it.
    """

    __slots__ = ("asked", "behind", "granted", "kv", "length", "tokens", "turn")

    request: GenerationRequest  # type: ignore[assignment]

    def __init__(self, request: GenerationRequest, answer: Any = None) -> None:
        super().__init__(request, None, answer)  # type: ignore[arg-type]
        self.tokens = list(request.prompt)  # and of the answer
        self.length = 0  # tokens whose keys and values are there, in a slot or in `kv`
        self.kv: Kv | None = None  # while it is paused
        self.behind = False  # its reader is
        self.asked = False  # its next token depends on an answer that is under way
        self.turn = 0  # tokens since it was seated
        self.granted = False  # as a late one among those of higher classes

    @property
    def level(self) -> int:
        """Of its class; 1 is the most urgent."""
        return self.request.service_class.level

    @property
    def tenant(self) -> str:
        """Whose share it uses."""
        return self.request.tenant

    @property
    def held(self) -> bool:
        """Whether it does not get on at present."""
        return self.behind or self.asked

    @property
    def pending(self) -> int:
        """Tokens that are to be run before the next one can be chosen."""
        return len(self.tokens) - self.length

    @property
    def protected(self) -> bool:
        """Whether its seat is its own until its turn is over."""
        return self.granted and self.turn < TURN

    @property
    def whole(self) -> bool:
        """Whether it is paused with a copy that lacks nothing, so that it can decode at once."""
        return self.kv is not None and self.pending == 1
