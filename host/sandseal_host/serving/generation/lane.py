"""One model's generations: a scheduler, the thread that does its steps, and the streams of those who read."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from threading import Condition, Lock, Thread
from time import monotonic
from typing import NoReturn

from sandseal_host.errors import ClientGone, DeadlineExpired, HostError, ModelFailed, NotReady, RequestInvalid
from sandseal_host.serving.cuts import Explanation
from sandseal_host.serving.generation.detokeniser import Detokeniser
from sandseal_host.serving.generation.engine import Engine
from sandseal_host.serving.generation.meter import TokenCounts
from sandseal_host.serving.generation.ports import DecoderRunner, Logits, LogitsRunner
from sandseal_host.serving.generation.prefixes import PrefixCounts
from sandseal_host.serving.generation.request import GenerationRequest, Piece, StreamTimings
from sandseal_host.serving.generation.scheduler import GenerationCounts, GenerationScheduler
from sandseal_host.serving.generation.sequence import Sequence
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.generation.stops import StopStrings
from sandseal_host.serving.generation.stream import Stream
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_host.serving.generation.writer import Delivery, Writer
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.tally import Tally
from sandseal_host.serving.ticket import ENDED

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GenerationStatistics:
    """A lane's counts.

    Args:
        slots: sequences that decode together at most.
        slot_bytes: of the keys and values of each.
        kv_bytes: of all slots.
        paused_bytes: of the copies of paused sequences, in the host's memory.
        sequences: where they are.
        finished_total: streams whose answers are complete.
        failed_total: streams that ended with an error.
        tokens: how quickly they come.
        prefixes: prompts that are kept.
    """

    slots: int
    slot_bytes: int
    kv_bytes: int
    paused_bytes: int
    sequences: GenerationCounts
    finished_total: int
    failed_total: int
    tokens: TokenCounts
    prefixes: PrefixCounts


class GenerationLane:
    """Answers prompts with streams; lives on one event loop, and does its work on a thread of its own.

    Args:
        decoder: runs them; the lane does not close it.
        vocabulary: makes text of tokens.
        settings: bounds of slots, queues and memory; the decoder has their context, and one slot more.
        name: for the thread and messages.
        logits: looks at the logits of every sequence; the lane does not close it.
        spare: bytes that the host's memory has to spare now; without them nothing is kept of what is paused.
    """

    def __init__(
        self,
        decoder: DecoderRunner,
        vocabulary: Vocabulary,
        settings: GenerationSettings,
        *,
        name: str = "model",
        logits: LogitsRunner | None = None,
        spare: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        self._logits = logits
        self._decoder, self._vocabulary, self._settings, self._name = decoder, vocabulary, settings, name
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._scheduler = GenerationScheduler(settings)
        self._engine = Engine(decoder, self._scheduler, settings, self._lock, spare)
        self._stops = lru_cache(maxsize=1)(StopStrings)  # which several answers to one request have in common
        self._unwanted: deque[Sequence] = deque()
        self._answers: deque[tuple[Sequence, Logits | HostError]] = deque()
        self._poked = False  # something happened since the thread looked last
        self._closing = False
        self._refusal: HostError | None = None  # of what is still to come
        self._ending: HostError | None = None  # of all that has not ended
        self._idle = asyncio.Event()
        self._thread = Thread(target=self._work, name=f"generation-{name}", daemon=True)

    def generate(self, request: GenerationRequest, on_end: Callable[[], None] = lambda: None) -> Stream:
        """Queue a prompt; the stream has its answer.

        Args:
            request: what is asked.
            on_end: called once on the loop when the stream has ended, however.

        Raises:
            RequestInvalid: the prompt or a parameter makes no sense for this model.
            QueueFull, DeadlineImpossible, DeadlineExpired: see `Scheduler.add`.
            NotReady: the lane is closing.
            HostError: see `withdraw`.
        """
        if self._closing:
            raise self._closed()
        self._check(request)
        row = self._engine.sampler.row(request.sampling, request.prompt)
        stops = self._stops(request.stop) if request.stop else None
        most = min(request.max_tokens, self._settings.context - len(request.prompt))
        if not most:
            return _nothing(request, on_end)
        request = replace(request, max_tokens=most)
        sequence = Sequence(request)
        stream = Stream(len(request.prompt), partial(self._read, sequence), partial(self._ended, sequence, on_end))
        detokeniser = Detokeniser(self._vocabulary, stops, request.shown)
        sequence.answer = writer = Writer(request, stream, detokeniser, row)
        if self._logits is not None:
            writer.constraint = self._logits.constrain(request, partial(self._answered, sequence))
        try:
            with self._changed:
                self._scheduler.add(sequence, monotonic())
                self._poke()
        except HostError:
            writer.close()
            raise
        if not self._thread.ident:
            self._thread.start()
        return stream

    async def close(self, timeout_s: float | None = None) -> None:
        """Take no more prompts, end the answers that were begun, and the thread.

        Args:
            timeout_s: seconds after which streams that have not ended are ended with an error; None = no bound.
        """
        self._closing = True
        self._wake()
        if not self._thread.ident:
            return
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            self._ending = self._ending or self._closed()
            self._wake()
            await self._idle.wait()
        await asyncio.to_thread(self._thread.join)

    def withdraw(self, error: HostError) -> None:
        """Refuse with this what is still to come, and end with it, within one step, every stream."""
        self._closing, self._refusal, self._ending = True, error, error
        self._wake()

    @property
    def settings(self) -> SchedulerSettings:
        """Classes, tenants' weights and how many may wait."""
        return self._settings.queue

    @property
    def tally(self) -> Tally:
        """What was answered; its rows are tokens."""
        return self._engine.tally

    @property
    def refused(self) -> int:
        """Prompts that were refused, or whose time ran out while they waited."""
        with self._lock:
            counts = self._scheduler.counts()
        return counts.expired_total + sum(counts.refused.values())

    def explain(self) -> Explanation:
        """What waits and runs."""
        with self._lock:
            counts = self._scheduler.counts()
        return Explanation(counts.waiting, counts.prefilling + counts.decoding, ())

    def statistics(self) -> GenerationStatistics:
        """The counts at this moment."""
        decoder, engine = self._decoder, self._engine
        with self._lock:
            counts, paused = self._scheduler.counts(), self._scheduler.paused_bytes()
        return GenerationStatistics(
            slots=self._settings.slots,
            slot_bytes=decoder.slot_bytes,
            kv_bytes=decoder.slots * decoder.slot_bytes,
            paused_bytes=paused,
            sequences=counts,
            finished_total=engine.tally.requests,
            failed_total=engine.tally.failed,
            tokens=engine.meter.counts(),
            prefixes=engine.prefixes.counts(),
        )

    def _check(self, request: GenerationRequest) -> None:
        """See that a prompt can be run: one bad id would fail all that are in a run with it."""
        prompt, vocab, context = request.prompt, self._decoder.vocab, self._settings.context
        if not prompt:
            _refuse("the prompt has no tokens", "send at least one")
        if len(prompt) >= context:  # before each token is looked at, which takes its time
            _refuse(
                f"the prompt has {len(prompt)} tokens, and the model takes {context} with the answer",
                "shorten the prompt",
            )
        if min(prompt) < 0 or max(prompt) >= vocab:
            unknown = next(token for token in prompt if not 0 <= token < vocab)
            _refuse(f"the prompt has a token {unknown}, and the model knows 0 to {vocab - 1}", "use its tokenizer")
        if request.max_tokens < 0:
            _refuse(f"max_tokens is {request.max_tokens}", "use 0 or more")

    def _closed(self) -> HostError:
        if self._refusal is not None:
            return copy(self._refusal)
        return NotReady(f"{self._name} is being unloaded", model=self._name)

    def _answered(self, sequence: Sequence, answer: Logits | HostError) -> None:
        self._answers.append((sequence, answer))
        self._wake()

    # On the event loop

    def _read(self, sequence: Sequence) -> None:
        writer: Writer = sequence.answer
        was_behind = writer.behind
        writer.read += 1
        if was_behind:
            self._wake()

    def _ended(self, sequence: Sequence, on_end: Callable[[], None]) -> None:
        if sequence.state not in ENDED:
            self._unwanted.append(sequence)
            self._wake()
        on_end()

    def _wake(self) -> None:
        with self._changed:
            self._poke()

    def _poke(self) -> None:
        self._poked = True
        self._changed.notify()

    # On the lane's thread

    def _work(self) -> None:
        self._decoder.settle()
        ended = False
        while not ended:
            try:
                ended = self._turn()
            except HostError as error:  # of the device, between two runs
                self._fail_all(error)
            except Exception as error:  # a fault of ours
                _log.exception("a step of %s failed", self._name)
                self._fail_all(ModelFailed(f"the step failed: {error}", hint="ask again; the host's log says where"))
            self._hand_over()
        self._tell(self._idle.set)

    def _turn(self) -> bool:
        """Do a step, or wait for something to do; whether that was the last."""
        self._poked = False
        self._sweep()
        with self._changed:
            step = self._scheduler.plan(monotonic())
            if step.run is None and not step.actions:
                if self._closing and not self._scheduler.all():
                    return True
                if not self._poked and not self._engine.deliveries:
                    self._changed.wait(self._pause_s())
                return False
        self._engine.execute(step)
        return False

    def _fail_all(self, error: HostError) -> None:
        with self._lock:
            rest = self._scheduler.all()
        for sequence in rest:
            self._engine.fail(sequence, copy(error))

    def _sweep(self) -> None:
        """Take out what nobody wants, what is late and what is not read, and note who does not read at present."""
        now, engine = monotonic(), self._engine
        while self._unwanted:
            sequence = self._unwanted.popleft()
            if sequence.state not in ENDED:
                engine.cancel(sequence)
        while self._answers:
            engine.answered(*self._answers.popleft())
        with self._lock:
            late, rest = self._scheduler.overdue(now), self._scheduler.all()
        for sequence in late:
            engine.tell(sequence, DeadlineExpired(f"the answer was not complete within {now - sequence.queued:.3g} s"))
        for sequence in rest:
            self._look_at_reader(sequence, now)
        if self._ending is not None:
            self._fail_all(self._ending)

    def _look_at_reader(self, sequence: Sequence, now: float) -> None:
        writer: Writer = sequence.answer
        sequence.behind = writer.behind
        if not sequence.behind:
            writer.held_since = None
        elif writer.held_since is None:
            writer.held_since = now
        elif now - writer.held_since >= self._settings.read_s:
            self._engine.meter.slow_readers += 1
            self._engine.fail(sequence, ClientGone(f"the stream was not read for {self._settings.read_s:g} s"))

    def _pause_s(self) -> float | None:
        """How long nothing is to be done, if nothing happens; called with the lock."""
        wake_at = self._scheduler.wake_at()
        for sequence in self._scheduler.all():
            if sequence.answer.held_since is not None:
                wake_at = min(wake_at, sequence.answer.held_since + self._settings.read_s)
        return None if wake_at == float("inf") else max(0.0, wake_at - monotonic())

    def _hand_over(self) -> None:
        """Let the loop give streams what they have coming, once a step."""
        deliveries, self._engine.deliveries = self._engine.deliveries, []
        if deliveries:
            self._tell(partial(_deliver, deliveries))

    def _tell(self, what: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to read
            self._loop.call_soon_threadsafe(what)


def _deliver(deliveries: list[Delivery]) -> None:
    for delivery in deliveries:
        delivery()


def _nothing(request: GenerationRequest, on_end: Callable[[], None]) -> Stream:
    """The answer to a request for no tokens."""
    stream = Stream(len(request.prompt), lambda: None, on_end)
    stream.put(Piece("", (), finish="length"), stream.usage, StreamTimings())
    return stream


def _refuse(message: str, hint: str) -> NoReturn:
    raise RequestInvalid(message, hint=hint)
