"""`POST /v1/chat/completions`: messages in, the next message out."""

from collections.abc import Sequence
from typing import Any

from sandseal_host.api.generation_options import read_options
from sandseal_host.api.openai.form import Choice, finish, flag, joined, objects, refuse
from sandseal_host.api.openai.logprobs import chat_logprobs
from sandseal_host.api.ports import Text
from sandseal_host.serving.generation.request import Piece
from sandseal_host.serving.generation.sampling import MAX_LOGPROBS
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_signing.manifest import Manifest
from sandseal_signing.schema import Node

_ROLES = ("system", "developer", "user", "assistant")
_NO_TOOLS = "tools are not supported here; describe them in a message"


class ChatForm:
    """A chat's request; see `Form`.

    Args:
        node: its members; those of this form are taken.
        manifest: the model's.
    """

    prefix, whole, part = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, node: Node, manifest: Manifest) -> None:
        self._messages = [_message(each) for each in objects(node, "messages", node.take("messages"))]
        self.options = read_options(node, manifest, _logprobs(node))
        if manifest.generation is not None and manifest.generation.chat_template is None:
            node.fail("model", "has no chat template; use POST /v1/completions")
        for name in ("tools", "functions"):
            refuse(node, name, _NO_TOOLS)
        for name in ("tool_choice", "function_call"):
            refuse(node, name, _NO_TOOLS, "none", "auto")
        refuse(node, "modalities", "only text comes out of this model", ["text"])
        for name in ("audio", "prediction", "web_search_options", "reasoning_effort", "verbosity"):
            refuse(node, name, "is not supported here")

    async def prompts(self, text: Text) -> Sequence[Sequence[int]]:
        """The one prompt that the model's own template makes of the messages."""
        return [await text.chat(self._messages)]

    def begin(self, index: int) -> Choice | None:
        """Who speaks."""
        return _part(index, {"role": "assistant", "content": "", "refusal": None}, None, None)

    def go_on(self, index: int, piece: Piece, vocabulary: Vocabulary) -> Choice:
        """What the message goes on with."""
        delta = {"content": piece.text} if piece.text else {}
        return _part(index, delta, chat_logprobs([piece], vocabulary), piece.finish)

    def answer(self, index: int, pieces: Sequence[Piece], vocabulary: Vocabulary) -> Choice:
        """The whole message."""
        return {
            "index": index,
            "message": {"role": "assistant", "content": joined(pieces), "refusal": None},
            "logprobs": chat_logprobs(pieces, vocabulary),
            "finish_reason": finish(pieces),
        }


def _part(index: int, delta: dict[str, Any], logprobs: dict[str, Any] | None, finish_reason: str | None) -> Choice:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}


def _logprobs(node: Node) -> int | None:
    """How many of the likeliest tokens are wanted beside the chosen ones."""
    wanted, top = flag(node, "logprobs"), node.integer("top_logprobs", None, high=MAX_LOGPROBS)
    if top is not None and not wanted:
        node.fail("top_logprobs", "needs logprobs to be true")
    return (top or 0) if wanted else None


def _message(node: Node) -> dict[str, str]:
    role = node.text("role", valid=_ROLES.__contains__, rule=f"one of {list(_ROLES)}")
    message = {"role": "system" if role == "developer" else role, "content": _content(node)}
    if node.has("name"):
        message["name"] = node.text("name")
    for name in ("refusal", "audio", "tool_calls", "function_call", "annotations"):  # of answers that are sent back
        refuse(node, name, "is not supported here")
    node.take("parsed", None)  # which OpenAI's client adds to an answer whose form it knows
    node.close()
    return message


def _content(node: Node) -> str:
    content = node.take("content")
    if isinstance(content, list):
        return "".join(map(_text_part, objects(node, "content", content)))
    if not isinstance(content, str):
        node.fail("content", "must be a string, or a list of parts with text")
    return content


def _text_part(node: Node) -> str:
    node.text("type", valid=("text", "refusal").__contains__, rule="'text'; this model takes nothing else")
    return str(node.text("text", valid=lambda _: True, rule="a string"))
