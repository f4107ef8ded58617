"""The protocol's calls, answered by the same models, tokens and checks as the REST endpoint's."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from grpc import RpcMethodHandler, stream_stream_rpc_method_handler, stream_unary_rpc_method_handler
from grpc.aio import ServicerContext

from sandseal_host.api.audit import note_act
from sandseal_host.api.endpoint import Endpoint
from sandseal_host.api.errors import TooSlow
from sandseal_host.api.generation import begin, infer, text_response
from sandseal_host.api.grant import Grant
from sandseal_host.api.grpc import messages
from sandseal_host.api.grpc.account import CallAccount, headers_of
from sandseal_host.api.grpc.codec import decode, encode
from sandseal_host.api.grpc.messages import Message
from sandseal_host.api.grpc.status import abort, explain
from sandseal_host.api.grpc.stream import AnswerStream, Put
from sandseal_host.api.inference import Plan
from sandseal_host.api.metadata import SERVER, index_entry
from sandseal_host.api.ports import HostState, LiveModel
from sandseal_host.api.request_id import REQUEST_ID, given_id
from sandseal_host.api.routes import read_version
from sandseal_host.api.terms import Terms
from sandseal_host.api.tls import Names
from sandseal_host.api.visit import QUICK_BYTES, to_request
from sandseal_host.errors import ClientGone, NotReady, RequestInvalid, UnsupportedRequest
from sandseal_host.registry.tokens import Scope
from sandseal_host.serving.request import CLASSES, Request
from sandseal_signing.errors import SandsealError

SERVICE = "inference.GRPCInferenceService"


@dataclass(frozen=True, slots=True)
class Asked:
    """A message from somebody who was let in.

    Args:
        message: as parsed.
        size: bytes that it had.
        grant: of the caller.
        context: of the call.
    """

    message: Message
    size: int
    grant: Grant
    context: ServicerContext


_Call = Callable[[Asked], Awaitable[Message]]
_Result = TypeVar("_Result")


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
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
        }
        return {
            "ServerLive": _open(self._live),
            "ServerReady": _open(self._ready),
            "ModelStreamInfer": stream_stream_rpc_method_handler(
                self._stream, None, messages.ModelStreamInferResponse.SerializeToString
            ),
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
                return await call(Asked(await _parsed(form, sent), len(sent), grant, context))
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
        return messages.ModelReadyResponse(ready=model.impediment() is None)

    async def _model(self, asked: Asked) -> Message:
        asked.grant.need_model(asked.message.name)
        document = self._endpoint.metadata(asked.message.name, read_version(asked.message.version))
        del document["properties"]  # which the message has no place for
        return messages.ModelMetadataResponse(**document)

    async def _config(self, asked: Asked) -> Message:
        name = asked.message.name
        asked.grant.need_model(name)
        config = self._endpoint.config(name, read_version(asked.message.version))
        return ParseDict({"config": config}, messages.ModelConfigResponse())

    async def _statistics(self, asked: Asked) -> Message:
        version = read_version(asked.message.version)
        statistics = self._endpoint.statistics(asked.grant, asked.message.name, version)
        return ParseDict(statistics, messages.ModelStatisticsResponse())

    async def _index(self, asked: Asked) -> Message:
        lines = [index_entry(entry) for entry in self._endpoint.models.index() if asked.grant.sees(entry.name)]
        return messages.RepositoryIndexResponse(
            models=[
                messages.RepositoryIndexResponse.ModelIndex(**line)
                for line in lines
                if not asked.message.ready or line["state"] == "READY"
            ]
        )

    async def _load(self, asked: Asked) -> Message:
        await self._operate("load", asked, set(), self._endpoint.lifecycle.load)
        return messages.RepositoryModelLoadResponse()

    async def _unload(self, asked: Asked) -> Message:
        await self._operate("unload", asked, {"unload_dependents"}, self._endpoint.lifecycle.unload)
        return messages.RepositoryModelUnloadResponse()

    async def _operate(self, verb: str, asked: Asked, known: set[str], act: Callable[..., Awaitable[None]]) -> None:
        name, outcome = asked.message.model_name, "no answer"
        try:
            self._check_operation(asked.message, asked.grant, known)
            await act(name, None, wait=True)
            outcome = "OK"
        except SandsealError as error:
            outcome = error.code
            raise
        finally:
            note_act(f"gRPC {verb} {quote(name)[:128]}", asked.grant, _address(asked.context.peer()), outcome)

    def _check_operation(self, asked: Message, grant: Grant, known: set[str]) -> None:
        grant.need(Scope.OPERATE)
        if unknown := sorted(asked.parameters.keys() - known):
            raise UnsupportedRequest(
                f"parameters {unknown} are not for this host: what runs is what was signed",
                hint="to change a model, push a new bundle",
                unknown=unknown,
            )
        grant.need_model(asked.model_name)

    async def _infer(self, asked: Asked) -> Message:
        told, model = self._enter(asked)
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
        inference = await _quick_or_apart(asked.size, decode, message, signature, self._default)
        current = endpoint.models.get(message.model_name, read_version(message.model_version))
        if current is not model:  # it was replaced while a thread read the message
            told.prepared = endpoint.edge.prepared.of(current)
            inference = decode(message, told.prepared.decoder.signature, self._default)
        request = to_request(inference, model.precision, asked.grant, told.arrived, patience_s=_patience(asked.context))
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
            message = await _parsed(messages.ModelInferRequest, sent)
            message.parameters.pop("triton_enable_empty_final_response", None)  # the last one says that it is
            grant = await self._admit(context)  # again: it may have been taken back
            asked = Asked(message, len(sent), grant, context)
            if self._generates(message, grant):
                await self._generate(asked, put_answer)
            else:
                await put_answer(await self._infer(asked))
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
        return await door.admit(header, _address(context.peer()), _certificate(context))


def _open(call: Callable[[object, ServicerContext], Awaitable[Message]]) -> RpcMethodHandler:
    """A call for everybody, whose message says nothing and is not read."""
    return stream_unary_rpc_method_handler(call, None, lambda reply: reply.SerializeToString())


async def _parsed(form: Any, sent: bytes) -> Message:
    try:
        return await _quick_or_apart(len(sent), form.FromString, sent)
    except DecodeError as error:
        raise RequestInvalid(f"the message is no {form.DESCRIPTOR.name}", hint="use the protocol's own file") from error


async def _quick_or_apart(size: int, work: Callable[..., _Result], *arguments: Any) -> _Result:
    """Work on a message: on a thread where that is large, so that others get their turns."""
    return await asyncio.to_thread(work, *arguments) if size > QUICK_BYTES else work(*arguments)


async def _repeat_id(context: ServicerContext) -> None:
    """Send back the id that a client gave its call."""
    if (given := given_id(headers_of(context))) is not None:
        await context.send_initial_metadata(((REQUEST_ID.decode(), given.decode()),))


def _patience(context: ServicerContext) -> float:
    """Seconds that the caller still waits."""
    left = context.time_remaining()
    return math.inf if left is None else left


def _certificate(context: ServicerContext) -> Names:
    """The names of the client's certificate."""
    found = context.auth_context()
    kinds = ("x509_common_name", "x509_subject_alternative_name")
    return tuple(name.decode("utf-8", "replace") for kind in kinds for name in found.get(kind, ()))


def _address(peer: str) -> str:
    """The address in gRPC's name of a peer, such as `ipv4:127.0.0.1:50000`."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer
