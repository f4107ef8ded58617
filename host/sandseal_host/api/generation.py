"""Models that generate text, as the edge asks them: through the Open Inference Protocol like any other model.

Their one input `text_input` is the prompt as it stands, the request's parameters say how it goes on, and the one
output `text_output` is the answer: whole, or a piece at a time.
"""

import asyncio
from functools import partial

import orjson

from sandseal_host.api.errors import OptionInvalid
from sandseal_host.api.generation_options import Options, read_options
from sandseal_host.api.ports import LiveModel
from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.claim import hand_over
from sandseal_host.serving.generation.request import GenerationRequest
from sandseal_host.serving.generation.stream import Stream
from sandseal_host.serving.ports import Cancellable, Waiter
from sandseal_host.serving.request import Request, Response
from sandseal_host.tensors import Tensor, pack_bytes, unpack_bytes
from sandseal_signing.manifest import TEXT_OUTPUT, Manifest
from sandseal_signing.schema import Node

_SHRUGGED = ("stream", "exclude_input_in_output")  # said to other servers, and true of every answer here


async def infer(model: LiveModel, request: Request) -> Response:
    """Answer a request, whatever the model does; a cancelled caller takes it back.

    Raises:
        HostError: as the model's `infer` or `generate` raises.
    """
    if model.manifest.generation is None:
        return await model.infer(request)
    with await begin(model, request) as stream:
        text = "".join([piece.text async for piece in stream])
    return text_response(text, stream)


def begin_infer(model: LiveModel, request: Request, waiter: Waiter) -> Cancellable:
    """Answer a request later, through `waiter`; what is returned takes it back."""
    if model.manifest.generation is None:
        return model.begin(request, waiter)
    task = asyncio.get_running_loop().create_task(infer(model, request))
    task.add_done_callback(partial(hand_over, waiter))
    return task


async def begin(model: LiveModel, request: Request) -> Stream:
    """Begin to answer the text of a request to a model that generates.

    Raises:
        RequestInvalid: the text is not UTF-8, or a parameter is not as it must be.
        HostError: as the model's `text` and `generate` raise.
    """
    options = _options(request.parameters, model.manifest)
    with model.hold():
        prompt = tuple(await model.text.encode(_text(request.inputs[0]), request))
        return model.generate(to_generation(request, prompt, options))


def to_generation(request: Request, prompt: tuple[int, ...], options: Options) -> GenerationRequest:
    """What serving is asked for: this prompt, under a request's terms."""
    return GenerationRequest(
        id=request.id,
        prompt=prompt,
        sampling=options.sampling,
        max_tokens=options.max_tokens or max(1, options.context - len(prompt)),
        service_class=request.service_class,
        tenant=request.tenant,
        arrival=request.arrival,
        deadline=request.deadline,
        stop=options.stop,
        stop_ids=options.stop_ids,
        shown=options.shown,
        constraints=options.constraints,
    )


def text_response(text: str, stream: Stream) -> Response:
    """A text as the model's only output."""
    output = Tensor(TEXT_OUTPUT.name, TEXT_OUTPUT.dtype, (1,), pack_bytes([text.encode()]))
    return Response((output,), stream.timings.table())


def _options(parameters: bytes, manifest: Manifest) -> Options:
    node = Node(orjson.loads(parameters), "parameters", OptionInvalid)
    for name in _SHRUGGED:
        node.take(name, None)
    options = read_options(node, manifest)
    node.close()
    return options


def _text(tensor: Tensor) -> str:
    (content,) = unpack_bytes(tensor)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise RequestInvalid(f"input {tensor.name!r} is not UTF-8 ({error})", tensor=tensor.name) from None
