"""A model that talks: it repeats its prompt, a byte a token, behind the served model's own interface."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from api.double import ModelDouble
from sandseal_host.errors import HostError, RequestInvalid
from sandseal_host.serving.generation.detokeniser import Detokeniser
from sandseal_host.serving.generation.request import GenerationRequest, Piece, StreamTimings, Usage
from sandseal_host.serving.generation.sampling import TokenLogprob
from sandseal_host.serving.generation.stops import StopStrings
from sandseal_host.serving.generation.stream import BUFFER, Stream
from sandseal_host.serving.generation.tool_calls import CallForm
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_host.serving.request import Request
from sandseal_signing.generation import GenerationSpec
from sandseal_signing.manifest import TEXT_INPUT, TEXT_OUTPUT, Manifest, ModelSpec
from sandseal_signing.stage import LOGITS_INPUTS, LOGITS_OUTPUTS, StageSpec

VOCABULARY = Vocabulary([bytes([i]) for i in range(256)], special=[0])


class BytesText:
    """Text whose tokens are its bytes; a chat is its messages' contents, one after another.

    `asked` has what the template was given.
    """

    vocabulary = VOCABULARY

    def __init__(self, calls: CallForm | None = None) -> None:
        self.calls = calls
        self.asked: list[dict[str, Any]] = []

    async def encode(self, text: str, request: Request) -> Sequence[int]:
        await asyncio.sleep(0)
        return text.encode()

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], request: Request, *, opening: str = "", **options: Any
    ) -> Sequence[int]:
        self.asked.append({"messages": messages, "opening": opening, **options})
        if messages[-1]["role"] not in ("user", "tool"):
            raise RequestInvalid("the template wants a user's message last")
        return await self.encode("|".join(str(message["content"]) for message in messages), request)


class Talker(ModelDouble):
    """Says its prompt, then stops.

    `steps`, when set, lets one token of a stream go on for each `release`; `breaks_at` fails after so many tokens; what
    is said `for_ever` is said as fast as it is read.
    """

    def __init__(
        self, name: str = "talker", *, logits: bool = False, calls: CallForm | None = None, **generation: Any
    ) -> None:
        defaults = {"context": 64, "stop_ids": (0,), "chat_template": "chat.jinja"}
        spec = GenerationSpec("tokenizer.json", **{**defaults, **generation})
        model = ModelSpec("decoder.onnx", (TEXT_INPUT,), (TEXT_OUTPUT,))
        stage = StageSpec("plugin.wasm", "constrain", LOGITS_INPUTS, LOGITS_OUTPUTS) if logits else None
        super().__init__(Manifest(name, 1, model, generation=spec, logits=stage), lambda _: ())
        self.text = BytesText(calls)
        self.context = spec.context
        self.asked: list[GenerationRequest] = []
        self.streams: list[Stream] = []
        self.steps: asyncio.Semaphore | None = None
        self.breaks_at: int | None = None
        self.for_ever = ""
        self.said = 0
        self.tasks: set[asyncio.Task[None]] = set()

    def generate(self, request: GenerationRequest) -> Stream:
        if len(request.prompt) >= self.context:
            raise RequestInvalid(f"the prompt has {len(request.prompt)} tokens, and the context {self.context}")
        self.asked.append(request)
        room = asyncio.Event()
        stream = Stream(len(request.prompt), room.set, room.set)
        self.streams.append(stream)
        self.tasks.add(task := asyncio.get_running_loop().create_task(self._say(request, stream, room)))
        task.add_done_callback(self.tasks.discard)
        return stream

    async def _say(self, request: GenerationRequest, stream: Stream, room: asyncio.Event) -> None:
        made = 0
        try:
            async for piece in self._pieces(request):
                self.said += 1
                made += len(piece.tokens)
                usage = Usage(len(request.prompt), made, len(request.prompt) // 2)
                stream.put(piece, usage, StreamTimings(0.001, 0.002, 0.003))
                while len(stream._pieces) >= BUFFER and not stream.ended:
                    room.clear()
                    await room.wait()
                if stream.ended:
                    return
        except HostError as error:
            stream.fail(error)

    async def _pieces(self, request: GenerationRequest) -> AsyncIterator[Piece]:
        words = Detokeniser(VOCABULARY, StopStrings(request.stop) if request.stop else None, request.shown)
        for number, token in enumerate([*request.prompt, 0]):
            await self._step(number)
            while self.for_ever:
                await asyncio.sleep(0)
                yield Piece(self.for_ever, (token,))
            if token == 0:
                yield Piece(words.finish(), (), None, "stop")
                return
            text = words.push(token)
            logprobs = None if request.sampling.logprobs is None else (_likely(token, request),)
            ended = "stop" if words.stopped else "length" if number + 1 == request.max_tokens else None
            yield Piece(text if ended != "length" else text + words.finish(), (token,), logprobs, ended)
            if ended:
                return

    async def _step(self, number: int) -> None:
        if self.steps is not None:
            await self.steps.acquire()
        await asyncio.sleep(0)
        if number == self.breaks_at:
            raise HostError("the lane broke")


def _likely(token: int, request: GenerationRequest) -> TokenLogprob:
    count = request.sampling.logprobs or 0
    return TokenLogprob(token, -0.5, tuple((token + i, -0.5 - i) for i in range(count)))
