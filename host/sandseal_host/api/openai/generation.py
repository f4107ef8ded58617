"""One request for text: from its members to its streams, and from these to its answer or its events."""

import secrets
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import orjson

from sandseal_host.api.answer import Answer, json_answer
from sandseal_host.api.errors import OptionInvalid
from sandseal_host.api.generation import to_generation
from sandseal_host.api.openai.call import Call
from sandseal_host.api.openai.form import MAX_CHOICES, Form, flag
from sandseal_host.api.openai.streams import Streams
from sandseal_host.api.streamed import event, stream_headers
from sandseal_host.serving.generation.request import Piece
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_signing.manifest import Manifest
from sandseal_signing.schema import Node

_DONE = event(b"[DONE]")


class Generation:
    """A chat's or a completion's request, whose members are read when it is made.

    Args:
        call: the request.
        form: chat, or plain text.

    Raises:
        OptionInvalid: the model generates nothing, or a member is not as it must be.
    """

    _vocabulary: Vocabulary

    def __init__(self, call: Call, form: Callable[[Node, Manifest], Form]) -> None:
        self._call, node = call, call.node
        self._form = form(node, call.model.manifest)
        self._each: int = node.integer("n", 1, low=1, high=MAX_CHOICES)
        self.streaming = flag(node, "stream")
        options = node.child("stream_options", None)
        self._counts_usage = options is not None and flag(options, "include_usage")
        call.read_class()
        node.close()
        self._head = {
            "id": f"{self._form.prefix}-{secrets.token_hex(12)}",
            "object": self._form.part if self.streaming else self._form.whole,
            "created": int(time.time()),
            "model": call.name,
            "system_fingerprint": call.fingerprint,
            "service_tier": call.tier,
        }

    async def begin(self) -> Streams:
        """Begin every answer; raises as the model's `text` and `generate` do."""
        call, streams = self._call, []
        with call.model.hold():
            text = call.model.text
            self._vocabulary = text.vocabulary
            prompts = [tuple(prompt) for prompt in await self._form.prompts(text, call.request())]
            if len(prompts) * self._each > MAX_CHOICES:
                raise OptionInvalid(
                    f"{len(prompts)} prompts with {self._each} answers each, over {MAX_CHOICES} answers",
                    hint="ask for fewer answers, or send the prompts in several requests",
                )
            requests = call.requests([()] * (len(prompts) * self._each))
            try:
                for number, request in enumerate(requests):
                    options = self._form.options.numbered(number % self._each)
                    prompt = prompts[number // self._each]
                    streams.append(call.model.generate(to_generation(request, prompt, options)))
            except BaseException:
                Streams(streams, self._each).cancel()
                raise
        begun = Streams(streams, self._each)
        call.timings = begun.timings
        return begun

    async def answer(self, streams: Streams) -> Answer:
        """The whole answer."""
        found: dict[int, list[Piece]] = {}
        with streams:
            async for number, piece in streams.pieces():
                found.setdefault(number, []).append(piece)
        choices = [self._form.answer(number, found[number], self._vocabulary) for number in sorted(found)]
        return json_answer(
            self._head | {"choices": choices, "usage": streams.usage()},
            headers=stream_headers(self._call.model, streams.timings()),
        )

    async def events(self, streams: Streams) -> AsyncGenerator[bytes, None]:
        """The answer as it comes."""
        begun: set[int] = set()
        with streams:
            async for number, piece in streams.pieces():
                if number not in begun:
                    begun.add(number)
                    if (choice := self._form.begin(number)) is not None:
                        yield self._event([choice])
                if piece.text or piece.logprobs or piece.finish:
                    yield self._event([self._form.go_on(number, piece, self._vocabulary)])
            if self._counts_usage:
                yield self._event([], streams.usage())
        yield _DONE

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        document = self._head | {"choices": choices} | ({"usage": usage} if self._counts_usage else {})
        return event(orjson.dumps(document))
