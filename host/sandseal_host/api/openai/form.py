"""What chat and plain completions have in common, and what each says for itself."""

from collections.abc import Sequence
from typing import Any, Protocol

from sandseal_host.api.errors import OptionInvalid
from sandseal_host.api.generation_options import Options
from sandseal_host.api.ports import Text
from sandseal_host.serving.generation.request import Piece
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_host.serving.request import Request
from sandseal_signing.schema import Node

MAX_CHOICES = 128  # answers to one request

Choice = dict[str, Any]


class Form(Protocol):
    """How a request's prompts come, and how its answers go out; made of the request's members and the manifest."""

    prefix: str
    """Of an answer's id."""
    whole: str
    """What an answer is called that comes at once."""
    part: str
    """What a piece of one is called."""
    options: Options

    async def prompts(self, text: Text, request: Request) -> Sequence[Sequence[int]]:
        """The prompts in tokens; `options` are complete then.

        Args:
            text: the model's.
            request: says who asks, and how urgently.

        Raises:
            HostError: there is none that the model takes.
        """
        ...

    def begin(self, index: int) -> Choice | None:
        """What is said before an answer's first piece."""
        ...

    def go_on(self, index: int, piece: Piece, vocabulary: Vocabulary) -> Choice:
        """What is said of a piece."""
        ...

    def answer(self, index: int, pieces: Sequence[Piece], vocabulary: Vocabulary) -> Choice:
        """The answer that the pieces make."""
        ...


def node_of(value: Any, where: str = "") -> Node:
    """An object's members that have a value; OpenAI's clients write null for what they leave out."""
    given = value if type(value) is not dict else {name: each for name, each in value.items() if each is not None}
    return Node(given, where, OptionInvalid)


def objects(node: Node, name: str, values: Any) -> list[Node]:
    """The objects of a list that stood in a member."""
    if type(values) is not list or not values:
        node.fail(name, "must be a list that holds something")
    return [node_of(value, f"{node.at(name)}[{i}]") for i, value in enumerate(values)]


def flag(node: Node, name: str, default: bool = False) -> bool:
    """Take a member that is true or false."""
    value = node.take(name, default)
    if type(value) is not bool:
        node.fail(name, "must be true or false")
    return value


def refuse(node: Node, name: str, why: str, *nothing: Any) -> None:
    """Take a member that may only say nothing: false, empty, or one of these values."""
    if (value := node.take(name, None)) and value not in nothing:
        node.fail(name, why)


def joined(pieces: Sequence[Piece]) -> str:
    """The text of an answer."""
    return "".join([piece.text for piece in pieces])


def finish(pieces: Sequence[Piece]) -> str | None:
    """Why an answer ended."""
    return pieces[-1].finish if pieces else None
