"""`POST /v1/chat/completions`: messages in, the next message out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from sandseal_host.api.errors import OptionInvalid
from sandseal_host.api.generation_options import read_options
from sandseal_host.api.openai.form import Choice, flag, joined, objects, refuse
from sandseal_host.api.openai.logprobs import chat_logprobs
from sandseal_host.api.openai.tools import Message, called, earlier_call, read_tools
from sandseal_host.api.ports import Text
from sandseal_host.serving.generation.request import Piece
from sandseal_host.serving.generation.sampling import MAX_LOGPROBS
from sandseal_host.serving.generation.tool_calls import CallForm, CallReader
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_host.serving.request import Request
from sandseal_signing.manifest import Manifest
from sandseal_signing.schema import Node

_ROLES = ("system", "developer", "user", "assistant", "tool")


class ChatForm:
    """A chat's request; see `Form`.

    Args:
        node: its members; those of this form are taken.
        manifest: the model's.
    """

    prefix, whole, part = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, node: Node, manifest: Manifest) -> None:
        self._messages = _named([_message(each) for each in objects(node, "messages", node.take("messages"))])
        self._tools = read_tools(node, holds=manifest.logits is not None)
        self._form: CallForm | None = None  # of calls, once the model is asked
        self._readers: dict[int, CallReader] = {}
        self.options = read_options(node, manifest, _logprobs(node))
        if self._tools is not None and "json_schema" in orjson.loads(self.options.constraints):
            node.fail("response_format", "cannot stand beside tools that may be called: it holds the whole answer")
        if manifest.generation is not None and manifest.generation.chat_template is None:
            node.fail("model", "has no chat template; use POST /v1/completions")
        for name in ("functions", "function_call"):
            refuse(node, name, "is the old form of tools; use these", "none", "auto")
        refuse(node, "modalities", "only text comes out of this model", ["text"])
        for name in ("audio", "prediction", "web_search_options", "reasoning_effort", "verbosity"):
            refuse(node, name, "is not supported here")

    async def prompts(self, text: Text, request: Request) -> Sequence[Sequence[int]]:
        """The one prompt that the model's own template makes of the messages, and of the tools."""
        tools, form = self._tools, text.calls
        if form is None and (where := self._where_tools()):
            raise OptionInvalid(f"{where}: this model's chat template knows no calls of functions", where=where)
        if tools is None or form is None:
            return [await text.chat(self._messages, request)]
        self._form, special = form, text.vocabulary.special_called(form.marks)
        constraints = orjson.loads(self.options.constraints) | tools.constraints(form, special)
        self.options = replace(self.options, constraints=orjson.dumps(constraints), shown=special)
        opening = form.opening if tools.forced else ""
        return [await text.chat(self._messages, request, opening=opening, tools=tools.functions)]

    def begin(self, index: int) -> Choice | None:
        """Who speaks."""
        return _part(index, {"role": "assistant", "content": "", "refusal": None}, None, None)

    def go_on(self, index: int, piece: Piece, vocabulary: Vocabulary) -> Choice:
        """What the message goes on with."""
        text, calls = self._parts(index, [piece])
        delta: dict[str, Any] = {"content": text} if text else {}
        if calls:
            first = self._readers[index].calls - len(calls)
            delta["tool_calls"] = [{"index": i} | call for i, call in enumerate(calls, first)]
        return _part(index, delta, chat_logprobs([piece], vocabulary), self._finish(index, piece))

    def answer(self, index: int, pieces: Sequence[Piece], vocabulary: Vocabulary) -> Choice:
        """The whole message."""
        text, calls = self._parts(index, pieces)
        message = {"role": "assistant", "content": text, "refusal": None}
        return {
            "index": index,
            "message": message | {"content": text or None, "tool_calls": calls} if calls else message,
            "logprobs": chat_logprobs(pieces, vocabulary),
            "finish_reason": self._finish(index, pieces[-1]),
        }

    def _parts(self, index: int, pieces: Sequence[Piece]) -> tuple[str, list[Message]]:
        """The text and the calls in some pieces of an answer."""
        text = joined(pieces)
        if self._tools is None or self._form is None:
            return text, []
        if index not in self._readers:
            self._readers[index] = self._tools.reader(self._form)
        reader = self._readers[index]
        found = reader.push(text) + (reader.finish() if pieces[-1].finish else [])
        words = "".join([part for part in found if isinstance(part, str)])
        return words, [called(part) for part in found if not isinstance(part, str)]

    def _finish(self, index: int, last: Piece) -> str | None:
        """Why an answer ended, if this is its last piece."""
        calls = self._readers[index].calls if index in self._readers else 0
        return "tool_calls" if calls and last.finish == "stop" else last.finish

    def _where_tools(self) -> str | None:
        """The first member that has to do with tools."""
        if self._tools is not None:
            return "tools"
        odd = (i for i, each in enumerate(self._messages) if each["role"] == "tool" or "tool_calls" in each)
        return next((f"messages[{i}]" for i in odd), None)


def _part(index: int, delta: dict[str, Any], logprobs: dict[str, Any] | None, finish_reason: str | None) -> Choice:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}


def _logprobs(node: Node) -> int | None:
    """How many of the likeliest tokens are wanted beside the chosen ones."""
    wanted, top = flag(node, "logprobs"), node.integer("top_logprobs", None, high=MAX_LOGPROBS)
    if top is not None and not wanted:
        node.fail("top_logprobs", "needs logprobs to be true")
    return (top or 0) if wanted else None


def _message(node: Node) -> Message:
    role = node.text("role", valid=_ROLES.__contains__, rule=f"one of {list(_ROLES)}")
    calls = (node.take("tool_calls", None) or []) if role == "assistant" else []
    content = "" if calls and not node.has("content") else _content(node)
    message: Message = {"role": "system" if role == "developer" else role, "content": content}
    if calls:
        message["tool_calls"] = [earlier_call(each) for each in objects(node, "tool_calls", calls)]
    if role == "tool":
        message["tool_call_id"] = node.text("tool_call_id")
    if node.has("name"):
        message["name"] = node.text("name")
    for name in ("refusal", "audio", "function_call", "annotations"):  # of answers that are sent back
        refuse(node, name, "is not supported here")
    node.take("parsed", None)  # which OpenAI's client adds to an answer whose form it knows
    node.close()
    return message


def _named(messages: list[Message]) -> list[Message]:
    """The messages, in which results have the names of the functions that were called; some templates need these."""
    names = {call["id"]: call["function"]["name"] for each in messages for call in each.get("tool_calls", ())}
    for message in messages:
        if message.get("tool_call_id") in names:
            message.setdefault("name", names[message["tool_call_id"]])
    return messages


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
