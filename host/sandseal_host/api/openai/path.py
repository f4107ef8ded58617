"""The way of the OpenAI API's requests through the edge."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import orjson

from sandseal_host.api.answer import Answer, json_answer
from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.compression import decompress
from sandseal_host.api.exchange import Exchange
from sandseal_host.api.json_document import JsonObject, load_object
from sandseal_host.api.openai.call import Call, Caller
from sandseal_host.api.openai.chat import ChatForm
from sandseal_host.api.openai.completions import CompletionForm
from sandseal_host.api.openai.embeddings import EmbeddingForm
from sandseal_host.api.openai.form import Form
from sandseal_host.api.openai.generation import Generation
from sandseal_host.api.openai.models import model_entry, model_list
from sandseal_host.api.routes import Action, Route
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.streamed import StreamedAnswer, stream_headers
from sandseal_host.api.visit import QUICK_BYTES, Edge
from sandseal_host.errors import UnsupportedRequest
from sandseal_host.serving.request import Request, Response
from sandseal_signing.manifest import Manifest
from sandseal_signing.schema import Node

_AT_ONCE = 64  # texts of one request that are embedded at once: others' requests need places in the queue too
_FORMS: dict[Action, Callable[[Node, Manifest], Form]] = {
    Action.CHAT: ChatForm,
    Action.COMPLETE: CompletionForm,
}


class OpenAiPath:
    """Answers the routes of the OpenAI API.

    Args:
        edge: what all requests share.
        door: knows who asks.
        settings: limits.
    """

    def __init__(self, edge: Edge, door: Doorkeeper, settings: ApiSettings) -> None:
        self._edge, self._door, self._settings = edge, door, settings

    async def models(self, _: Route, exchange: Exchange) -> Answer:
        """The list of models."""
        return json_answer(model_list(self._edge.models, (await self._admit(exchange)).grant))

    async def model(self, route: Route, exchange: Exchange) -> Answer:
        """One model."""
        return json_answer(model_entry(self._edge.models, (await self._admit(exchange)).grant, route.model))

    async def embed(self, _: Route, exchange: Exchange) -> Answer:
        """The vectors of one text or several; raises as `Call` and the model's `infer` do."""
        call = await self._call(exchange)
        try:
            form = EmbeddingForm(call.node, call.model.manifest)
            call.read_class()
            call.node.close()
            with self._edge.presence.wait(exchange, call.arrival):
                responses = await _infer_all(call, call.requests(form.inputs))
            call.timings = lambda: responses[0].timings
            body = orjson.dumps(form.answer(responses, call.name), option=orjson.OPT_SERIALIZE_NUMPY)
            return call.count(Answer(200, body))
        except Exception as error:
            return call.fail(error)

    async def generate(self, route: Route, exchange: Exchange) -> Answer | StreamedAnswer:
        """The answers to a prompt or several; raises as `Call` does."""
        call = await self._call(exchange)
        try:
            generation = Generation(call, _FORMS[route.action])
            with self._edge.presence.wait(exchange, call.arrival):
                streams = await generation.begin()
                if not generation.streaming:
                    return call.count(await generation.answer(streams))
            return await StreamedAnswer.begin(
                generation.events(streams),
                exchange,
                self._edge.presence,
                headers=lambda: stream_headers(call.model, streams.timings()),
                finished=partial(call.count, Answer(200, b"")),
                failed=call.fail,
            )
        except Exception as error:
            return call.fail(error)

    async def _admit(self, exchange: Exchange) -> Caller:
        authorization = exchange.headers.get(b"authorization")
        grant = await self._door.admit(authorization, exchange.address, exchange.certificate)
        return Caller(self._edge, grant, exchange.headers, time.monotonic())

    async def _call(self, exchange: Exchange) -> Call:
        caller = await self._admit(exchange)
        caller.enter()
        if b"sandseal-receipt" in exchange.headers:
            raise UnsupportedRequest("this API has no receipts", hint="ask through /v2/models/{model}/infer")
        body = await exchange.body(self._settings.max_json_bytes, 0)
        encoding = exchange.headers.get(b"content-encoding")
        if len(body) > QUICK_BYTES or encoding:
            return Call(caller, await asyncio.to_thread(self._load, body, encoding))
        return Call(caller, self._load(body, None))

    def _load(self, body: memoryview, encoding: bytes | None) -> JsonObject:
        settings = self._settings
        if encoding:
            body = decompress(body, encoding, settings.max_json_bytes, settings.max_ratio)
        return load_object(bytes(body), limits=settings.json)


async def _infer_all(call: Call, requests: list[Request]) -> list[Response]:
    """The answers, some at a time; none is waited for once one has failed."""
    responses: list[Response] = []
    for start in range(0, len(requests), _AT_ONCE):
        tasks = [asyncio.ensure_future(call.model.infer(each)) for each in requests[start : start + _AT_ONCE]]
        try:
            responses += await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
    return responses
