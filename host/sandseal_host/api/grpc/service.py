"""The protocol's calls, answered by the same models, tokens and checks as the REST endpoint's."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic

from google.protobuf.json_format import ParseDict
from grpc import RpcMethodHandler, stream_stream_rpc_method_handler, stream_unary_rpc_method_handler
from grpc.aio import ServicerContext

from sandseal_host.api.endpoint import Endpoint
from sandseal_host.api.errors import TooSlow
from sandseal_host.api.generation import begin, infer, text_response
from sandseal_host.api.grant import Grant
from sandseal_host.api.grpc import messages
from sandseal_host.api.grpc.account import CallAccount, headers_of
from sandseal_host.api.grpc.asked import Asked, address_of, certificate_of, parsed, quick_or_apart
from sandseal_host.api.grpc.codec import decode, encode
from sandseal_host.api.grpc.control import ControlCalls
from sandseal_host.api.grpc.messages import Message
from sandseal_host.api.grpc.status import abort, explain
from sandseal_host.api.grpc.stream import AnswerStream, Put
from sandseal_host.api.inference import Plan
from sandseal_host.api.metadata import SERVER
from sandseal_host.api.ports import HostState, LiveModel
from sandseal_host.api.request_id import REQUEST_ID, given_id
from sandseal_host.api.routes import read_version
from sandseal_host.api.terms import Terms
from sandseal_host.api.visit import to_request
from sandseal_host.errors import ClientGone, NotReady, UnsupportedRequest
from sandseal_host.registry.tokens import Scope
from sandseal_host.serving.request import CLASSES, Request

SERVICE = "inference.GRPCInferenceService"

_SHARED_MEMORY = [
    f"{kind}SharedMemory{act}" for kind in ("System", "Cuda") for act in ("Status", "Register", "Unregister")
]
_Call = Callable[[Asked], Awaitable[Message]]


class InferenceService:
    """Answers `inference.GRPCInferenceService`.

    Args:
        endpoint: the data plane's; its models, doorkeeper and limits are this service's too.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._default = Terms(CLASSES[endpoint.settings.default_class])

    def handlers(self) -> dict[str, RpcMethodHandler]:
        """Every call that is known, by name."""
        calls: dict[str, _Call] = {
            "ServerMetadata": self._server,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._model,
            "ModelConfig": self._config,
            "ModelStatistics": self._statistics,
            "ModelInfer": self._infer,
            **ControlCalls(self._endpoint).calls(),
        }
        return {
            "ServerLive": _open(self._live),
            "ServerReady": _open(self._ready),
            "ModelStreamInfer": stream_stream_rpc_method_handler(
                self._stream, None, messages.ModelStreamInferResponse.SerializeToString
            ),
            **{name: _open(_refuse_sharing) for name in _SHARED_MEMORY},
            **{name: self._admitted(name, call) for name, call in calls.items()},
        }

    def _admitted(self, name: str, call: _Call) -> RpcMethodHandler:
        """A call whose message is not read before its caller is known; nobody else may fill this process's memory."""
        form, reply = getattr(messages, f"{name}Request"), getattr(messages, f"{name}Response")

        async def answer(requests: AsyncIterator[bytes], context: ServicerContext) -> Message:
            try:
                await _repeat_id(context)
                grant = await self._admit(context)
                sent = await self._first(requests)
                return await call(Asked(await parsed(form, sent), len(sent), grant, context))
            except Exception as error:
                return await abort(context, error)

        return stream_unary_rpc_method_handler(answer, None, reply.SerializeToString)

    async def _first(self, requests: AsyncIterator[bytes]) -> bytes:
        """A call's message.

        Raises:
            TooSlow: it did not arrive in time.
            ClientGone: the call ended before it.
        """
        try:
            async with asyncio.timeout(self._endpoint.settings.slow_s):
                async for sent in requests:
                    return sent
        except TimeoutError:
            raise TooSlow("the call's message did not come in time") from None
        raise ClientGone("the call ended before its message")

    async def _live(self, _: object, __: ServicerContext) -> Message:
        return messages.ServerLiveResponse(live=True)

    async def _ready(self, _: object, __: ServicerContext) -> Message:
        return messages.ServerReadyResponse(ready=self._endpoint.lifecycle.state is HostState.READY)

    async def _server(self, _: Asked) -> Message:
        return messages.ServerMetadataResponse(**SERVER)

    async def _model_ready(self, asked: Asked) -> Message:
        message = asked.message
        asked.grant.need_model(message.name)
        try:
            model = self._endpoint.models.get(message.name, read_version(message.version))
        except NotReady:
            return messages.ModelReadyResponse(ready=False)
        return messages.ModelReadyResponse(ready=model.impediment(asked.grant.models) is None)

    async def _model(self, asked: Asked) -> Message:
        asked.grant.need_model(asked.message.name)
        document = self._endpoint.metadata(asked.message.name, read_version(asked.message.version))
        del document["properties"]  # which the message has no place for
        return messages.ModelMetadataResponse(**document)

    async def _config(self, asked: Asked) -> Message:
        name = asked.message.name
        asked.grant.need_model(name)
        config = self._endpoint.config(name, read_version(asked.message.version))
        # It has no fields for sequences, caches and pipelines.
        return ParseDict({"config": config}, messages.ModelConfigResponse(), ignore_unknown_fields=True)

    async def _statistics(self, asked: Asked) -> Message:
        version = read_version(asked.message.version)
        statistics = self._endpoint.statistics(asked.grant, asked.message.name, version)
        return ParseDict(statistics, messages.ModelStatisticsResponse())

    async def _infer(self, asked: Asked) -> Message:
        told, model = self._enter(asked)
        answer = await self._answer(asked, told, model)
        asked.context.set_trailing_metadata(told.metadata())
        return answer

    async def _answer(self, asked: Asked, told: CallAccount, model: LiveModel) -> Message:
        with told.kept(asked.context, asked.message.id):
            model, request, plan = await self._bind(asked, told, model)
            response = await infer(model, request)
            told.timings = response.timings
            return encode(model.manifest, model.precision, plan, response)

    async def _generate(self, asked: Asked, put: Callable[[Message, bool], Awaitable[None]]) -> None:
        """Hand on the pieces of a text as they come, and with each whether it is the last."""
        told, model = self._enter(asked)
        with told.kept(asked.context, asked.message.id):
            model, request, plan = await self._bind(asked, told, model)
            with await begin(model, request) as stream:
                async for piece in stream:
                    told.timings = stream.timings.table()
                    if piece.text or piece.finish:
                        answer = encode(model.manifest, model.precision, plan, text_response(piece.text, stream))
                        await put(answer, piece.finish is not None)

    def _enter(self, asked: Asked) -> tuple[CallAccount, LiveModel]:
        """The model that a message names, and the account of what is asked of it."""
        endpoint, message, grant = self._endpoint, asked.message, asked.grant
        grant.need(Scope.INFER)
        grant.need_model(message.model_name)
        model = endpoint.models.get(message.model_name, read_version(message.model_version))
        return CallAccount(endpoint.edge, grant.tenant, endpoint.edge.prepared.of(model)), model

    async def _bind(self, asked: Asked, told: CallAccount, model: LiveModel) -> tuple[LiveModel, Request, Plan]:
        """The model that serves now, and what to ask of it in this same turn of the loop."""
        endpoint, message = self._endpoint, asked.message
        signature = told.prepared.decoder.signature
        inference = await quick_or_apart(asked.size, decode, message, signature, self._default)
        current = endpoint.models.get(message.model_name, read_version(message.model_version))
        if current is not model:  # it was replaced while a thread read the message
            told.prepared = endpoint.edge.prepared.of(current)
            inference = decode(message, told.prepared.decoder.signature, self._default)
        request = to_request(inference, model.precision, asked.grant, told.arrived, patience_s=asked.patience_s)
        told.service_class, told.asked = request.service_class.name, monotonic()
        return current, request, inference.plan

    async def _stream(self, requests: AsyncIterator[bytes], context: ServicerContext) -> None:
        """Answer a stream's requests."""
        try:
            await _repeat_id(context)
            await self._admit(context)
        except Exception as error:
            await abort(context, error)

        async def answer(sent: bytes, put: Put) -> None:
            await self._streamed(sent, context, put)

        await AnswerStream(context, self._endpoint.settings.slow_s).serve(requests, answer)

    async def _streamed(self, sent: bytes, context: ServicerContext, put: Put) -> None:
        """Answer one request of a stream; an error is a message, and the stream goes on."""

        async def put_answer(answer: Message, last: bool = True) -> None:
            answer.parameters["triton_final_response"].bool_param = last
            await put(messages.ModelStreamInferResponse(infer_response=answer))

        message = messages.ModelInferRequest()
        try:
            message = await parsed(messages.ModelInferRequest, sent)
            message.parameters.pop("triton_enable_empty_final_response", None)  # the last one says that it is
            grant = await self._admit(context)  # again: it may have been taken back
            asked = Asked(message, len(sent), grant, context)
            if self._generates(message, grant):
                await self._generate(asked, put_answer)
            else:
                await put_answer(await self._answer(asked, *self._enter(asked)))
        except Exception as error:
            failed = messages.ModelInferResponse(id=message.id, model_name=message.model_name)
            await put(messages.ModelStreamInferResponse(error_message=explain(error).text, infer_response=failed))

    def _generates(self, message: Message, grant: Grant) -> bool:
        """Whether a message asks a model that answers in pieces."""
        grant.need_model(message.model_name)
        model = self._endpoint.models.get(message.model_name, read_version(message.model_version))
        return model.manifest.generation is not None

    async def _admit(self, context: ServicerContext) -> Grant:
        """The grant of the caller's token.

        Raises:
            NotAuthenticated, RateLimited: see `Doorkeeper`.
        """
        found = [value for name, value in context.invocation_metadata() or () if name == "authorization"]
        header = None if not found else found[-1] if isinstance(found[-1], bytes) else found[-1].encode()
        door = self._endpoint.door
        return await door.admit(header, address_of(context), certificate_of(context))


def _open(call: Callable[[object, ServicerContext], Awaitable[Message]]) -> RpcMethodHandler:
    """A call for everybody, whose message says nothing and is not read."""
    return stream_unary_rpc_method_handler(call, None, lambda reply: reply.SerializeToString())


async def _refuse_sharing(_: object, context: ServicerContext) -> Message:
    refusal = UnsupportedRequest("this host shares no memory with its clients", hint="send tensors in the message")
    return await abort(context, refusal)


async def _repeat_id(context: ServicerContext) -> None:
    """Send back the id that a client gave its call."""
    if (given := given_id(headers_of(context))) is not None:
        await context.send_initial_metadata(((REQUEST_ID.decode(), given.decode()),))
