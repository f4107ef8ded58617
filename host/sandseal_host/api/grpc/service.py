"""The protocol's calls, answered by the same models, tokens and checks as the REST endpoint's."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import unquote

from grpc import RpcMethodHandler, stream_stream_rpc_method_handler, unary_unary_rpc_method_handler
from grpc.aio import ServicerContext

from sandseal_host.api.endpoint import Endpoint
from sandseal_host.api.grant import Grant
from sandseal_host.api.grpc import messages
from sandseal_host.api.grpc.codec import decode, encode
from sandseal_host.api.grpc.messages import Message
from sandseal_host.api.grpc.status import abort, explain
from sandseal_host.api.metadata import SERVER, index_entry, model_metadata
from sandseal_host.api.ports import HostState
from sandseal_host.api.problems import status_of
from sandseal_host.api.routes import read_version
from sandseal_host.api.terms import Terms
from sandseal_host.api.visit import to_request
from sandseal_host.errors import NotReady, UnsupportedRequest
from sandseal_host.registry.tokens import Scope
from sandseal_host.serving.request import CLASSES
from sandseal_signing.errors import SandsealError

SERVICE = "inference.GRPCInferenceService"

_Reply = TypeVar("_Reply")

_WINDOW = 8  # requests of one stream that are under way; more are not read


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
        calls: dict[str, Callable[[Any, ServicerContext], Awaitable[Any]]] = {
            "ServerLive": self._live,
            "ServerReady": self._ready,
            "ServerMetadata": self._server,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._model,
            "ModelInfer": self._infer,
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
        }
        return {
            "ModelStreamInfer": stream_stream_rpc_method_handler(
                self._stream, messages.ModelInferRequest.FromString, messages.ModelStreamInferResponse.SerializeToString
            ),
            **{name: _unary(name, call) for name, call in calls.items()},
        }

    async def _live(self, _: Message, __: ServicerContext) -> Message:
        return messages.ServerLiveResponse(live=True)

    async def _ready(self, _: Message, __: ServicerContext) -> Message:
        return messages.ServerReadyResponse(ready=self._endpoint.lifecycle.state is HostState.READY)

    async def _server(self, _: Message, context: ServicerContext) -> Message:
        await self._admit(context)
        return messages.ServerMetadataResponse(**SERVER)

    async def _model_ready(self, asked: Message, context: ServicerContext) -> Message:
        (await self._admit(context)).need_model(asked.name)
        try:
            model = self._endpoint.models.get(asked.name, read_version(asked.version))
        except NotReady:
            return messages.ModelReadyResponse(ready=False)
        return messages.ModelReadyResponse(ready=model.impediment() is None)

    async def _model(self, asked: Message, context: ServicerContext) -> Message:
        (await self._admit(context)).need_model(asked.name)
        models = self._endpoint.models
        document = model_metadata(models.get(asked.name, read_version(asked.version)), models.index())
        del document["properties"]  # which the message has no place for
        return messages.ModelMetadataResponse(**document)

    async def _index(self, asked: Message, context: ServicerContext) -> Message:
        grant = await self._admit(context)
        lines = [index_entry(entry) for entry in self._endpoint.models.index() if grant.sees(entry.name)]
        return messages.RepositoryIndexResponse(
            models=[
                messages.RepositoryIndexResponse.ModelIndex(**line)
                for line in lines
                if not asked.ready or line["state"] == "READY"
            ]
        )

    async def _load(self, asked: Message, context: ServicerContext) -> Message:
        await self._operate(asked, context, set())
        await self._endpoint.lifecycle.load(asked.model_name, None, wait=True)
        return messages.RepositoryModelLoadResponse()

    async def _unload(self, asked: Message, context: ServicerContext) -> Message:
        await self._operate(asked, context, {"unload_dependents"})
        await self._endpoint.lifecycle.unload(asked.model_name, None, wait=True)
        return messages.RepositoryModelUnloadResponse()

    async def _operate(self, asked: Any, context: ServicerContext, known: set[str]) -> None:
        grant = await self._admit(context)
        grant.need(Scope.OPERATE)
        if unknown := sorted(asked.parameters.keys() - known):
            raise UnsupportedRequest(
                f"parameters {unknown} are not for this host: what runs is what was signed",
                hint="to change a model, push a new bundle",
                unknown=unknown,
            )
        grant.need_model(asked.model_name)

    async def _infer(self, asked: Message, context: ServicerContext) -> Message:
        arrival, endpoint = monotonic(), self._endpoint
        grant = await self._admit(context)
        grant.need(Scope.INFER)
        grant.need_model(asked.model_name)
        model = endpoint.models.get(asked.model_name, read_version(asked.model_version))
        prepared = endpoint.edge.prepared.of(model)
        status, service_class = 200, endpoint.settings.default_class
        try:
            inference = decode(asked, prepared.decoder.signature, self._default)
            request = to_request(inference, grant, arrival, patience_s=_patience(context))
            service_class = request.service_class.name
            response = await model.infer(request)
            return encode(model.manifest, inference.plan, response)
        except SandsealError as error:
            status = status_of(type(error))
            raise
        except asyncio.CancelledError:
            status = 499
            raise
        finally:
            prepared.meter.count(status, service_class, monotonic() - arrival)

    async def _stream(self, requests: AsyncIterator[Message], context: ServicerContext) -> AsyncIterator[Message]:
        """Answer a stream's requests in their order; some run at once, and no more are read than that."""
        begun: asyncio.Queue[asyncio.Task[Message] | None] = asyncio.Queue(_WINDOW)
        async with asyncio.TaskGroup() as group:

            async def read() -> None:
                async for asked in requests:
                    await begun.put(group.create_task(self._streamed(asked, context)))
                await begun.put(None)

            group.create_task(read())
            while (task := await begun.get()) is not None:
                yield await task

    async def _streamed(self, asked: Message, context: ServicerContext) -> Message:
        """One answer of a stream; an error is a message, and the stream goes on."""
        try:
            return messages.ModelStreamInferResponse(infer_response=await self._infer(asked, context))
        except Exception as error:
            failed = messages.ModelInferResponse(id=asked.id, model_name=asked.model_name)
            return messages.ModelStreamInferResponse(error_message=explain(error).text, infer_response=failed)

    async def _admit(self, context: ServicerContext) -> Grant:
        """The grant of the caller's token.

        Raises:
            NotAuthenticated, RateLimited: see `Doorkeeper`.
        """
        found = [value for name, value in context.invocation_metadata() or () if name == "authorization"]
        header = None if not found else found[-1] if isinstance(found[-1], bytes) else found[-1].encode()
        door = self._endpoint.door
        return door.recall(header) or await door.admit(header, _address(context.peer()))


def _unary(name: str, call: Callable[[Any, ServicerContext], Awaitable[_Reply]]) -> RpcMethodHandler:
    async def answer(request: Any, context: ServicerContext) -> _Reply:
        try:
            return await call(request, context)
        except Exception as error:
            return await abort(context, error)

    asked = getattr(messages, f"{name}Request")
    reply = getattr(messages, f"{name}Response")
    return unary_unary_rpc_method_handler(answer, asked.FromString, reply.SerializeToString)


def _patience(context: ServicerContext) -> float:
    """Seconds that the caller still waits."""
    left = context.time_remaining()
    return math.inf if left is None else left


def _address(peer: str) -> str:
    """The address in gRPC's name of a peer, such as `ipv4:127.0.0.1:50000`."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer
