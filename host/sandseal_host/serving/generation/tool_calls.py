"""Calls of functions in a model's answers, in the forms that chat templates teach.

The bundle's signed template says which form its model was taught; no answer is looked at to find that out.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

_NAMED = re.compile(r"([\w.-]+)(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*(?=\{)")  # Mistral's, from its eleventh tokenizer on
_LLAMA_SAYS = ("tool_calls", '"parameters": ', "ipython")
_ESCAPE = re.compile(r"\\.", re.DOTALL)  # in JSON's strings
_FOREIGN = ("<function=", "<arg_key>")  # languages of other models, between the same marks


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call.

    Args:
        name: of the function.
        arguments: a JSON object, as text.
    """

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a model writes calls.

    Args:
        mark: stands before a call.
        closing: stands behind it; empty where the answer's end does.
        bare: an answer that begins as a JSON object may be a call without the mark.
        opening: what an answer that must be a call begins with, so that JSON alone is left to say.
        arguments: what the model calls the member that has them.
        inner: marks that may stand in a call.
    """

    mark: str
    closing: str = ""
    bare: bool = False
    opening: str = ""
    arguments: str = "arguments"
    inner: tuple[str, ...] = ()

    @property
    def marks(self) -> frozenset[str]:
        """What is part of a call, although a tokenizer may not count it as text."""
        return frozenset((self.mark, self.closing, *self.inner))


HERMES = CallForm("<tool_call>", "</tool_call>", opening="<tool_call>\n")
MISTRAL = CallForm("[TOOL_CALLS]", opening="[TOOL_CALLS]", inner=("[CALL_ID]", "[ARGS]"))
LLAMA = CallForm("<|python_tag|>", bare=True, arguments="parameters")


def call_form(template: str) -> CallForm | None:
    """The form that a chat template teaches; None where it knows no tools, or has a form of its own.

    Args:
        template: Jinja. Hermes and Qwen2 name `<tool_call>` in it, Mistral `[TOOL_CALLS]`; Llama 3.1 and later write
            a call as `{"name": ..., "parameters": ...}`.
    """
    if "tools" not in template or any(mark in template for mark in _FOREIGN):
        return None
    for form in (MISTRAL, HERMES):
        if form.mark in template:
            return form
    return LLAMA if all(word in template for word in _LLAMA_SAYS) else None


class CallReader:
    """Takes one answer apart, as it comes, into text and calls.

    A call is given once it is complete, and only of a function that was offered; what looks like one and is none is
    text after all.

    Args:
        form: the model's.
        names: of the functions that were offered.
        most: how many calls are given; further ones are left out.
        forced: the answer is calls and nothing else, behind the form's opening.
    """

    def __init__(
        self, form: CallForm, names: Collection[str], most: int | None = None, *, forced: bool = False
    ) -> None:
        self._form, self._names, self._most = form, names, most
        self._closing = "" if forced else form.closing
        self._between = re.compile(rf"(?:[\s;,]|{re.escape(form.mark)})*")
        self._held = ""  # what is not given yet
        self._tried = self._quotes = 0  # how much of it closes no call, and the quotes in that
        self._in_call, self._begun = forced, False
        self.calls = 0
        """How many were given."""

    def push(self, text: str) -> list[str | ToolCall]:
        """Take what the answer goes on with; as much of it as is certain."""
        self._held += text
        found: list[str | ToolCall] = []
        while self._take_call(found) if self._in_call else self._take_text(found):
            pass
        return found

    def finish(self) -> list[str | ToolCall]:
        """Take the answer's end; the rest."""
        rest, self._held = self._held, ""
        if self._in_call and (calls := self._read(rest)) is not None:
            return calls
        return [rest] if rest.strip() or (rest and not self.calls) else []

    def _take_text(self, found: list[str | ToolCall]) -> bool:
        """Give what stands before the next call; whether one follows."""
        mark, held = self._form.mark, self._held
        if not self._begun and held.strip():
            self._begun = True
            if self._form.bare and held.lstrip().startswith("{"):
                self._in_call = True
                return True
        at = held.find(mark)
        self._in_call = at >= 0
        text = held[: at if self._in_call else len(held) - _beginning(held, mark)].rstrip()
        self._held = held[len(text) :]
        if text:
            found.append(text)
        return self._in_call

    def _take_call(self, found: list[str | ToolCall]) -> bool:
        """Give the call that is closed, as text if it is none; whether there is one."""
        while self._closing and (end := self._held.find(self._closing, self._tried)) >= 0:
            self._quotes += _ESCAPE.sub("", self._held[self._tried : end]).count('"')
            self._tried = end + len(self._closing)
            if self._quotes % 2:  # it stands in an argument
                continue
            calls = self._read(self._held[:end])
            found += [self._held[: self._tried]] if calls is None else calls
            self._held, self._in_call = self._held[self._tried :], False
            self._tried = self._quotes = 0
            return True
        return False

    def _read(self, body: str) -> list[str | ToolCall] | None:
        """The calls in a text that should be nothing else; None where it is not."""
        try:
            calls = self._parse(body)
        except (ValueError, RecursionError):
            return None
        if not calls or any(call.name not in self._names for call in calls):
            return None
        taken = calls if self._most is None else calls[: max(0, self._most - self.calls)]
        self.calls += len(taken)
        return [*taken]

    def _parse(self, body: str) -> list[ToolCall]:
        """One JSON value after another: calls, lists of them, or arguments behind a name."""
        calls: list[ToolCall] = []
        at = self._skip(body, 0)
        while at < len(body):
            named = _NAMED.match(body, at)
            value, at = _JSON.raw_decode(body, named.end() if named else at)
            if named:
                calls.append(_call(named[1], value))
            else:
                calls += [_call_of(each) for each in (value if isinstance(value, list) else [value])]
            at = self._skip(body, at)
        return calls

    def _skip(self, body: str, at: int) -> int:
        between = self._between.match(body, at)
        return between.end() if between else at


def _call_of(value: Any) -> ToolCall:
    if not isinstance(value, dict):
        raise ValueError("a call is an object")
    return _call(value.get("name"), value.get("arguments", value.get("parameters")))


def _call(name: Any, arguments: Any) -> ToolCall:
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ValueError("a call has a name, and an object of arguments")
    return ToolCall(name, json.dumps(arguments, allow_nan=False))  # as 1e999 is read


def _beginning(text: str, mark: str) -> int:
    """How many of the last characters may be the beginning of a mark."""
    sizes = range(min(len(text), len(mark) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(mark[:size])), 0)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_JSON = json.JSONDecoder(parse_constant=_refuse)
