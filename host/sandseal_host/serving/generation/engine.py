"""Does what the scheduler plans: copies between slots, runs of the decoder, and the choice of each next token."""

from collections.abc import Callable
from copy import copy
from threading import Lock
from time import monotonic, time

from sandseal_host.errors import HostError, ModelFailed
from sandseal_host.serving.generation.meter import Meter
from sandseal_host.serving.generation.ports import DecoderRunner, Logits
from sandseal_host.serving.generation.prefixes import PrefixCache
from sandseal_host.serving.generation.sampling import Choice, Sampler
from sandseal_host.serving.generation.scheduler import Decode, GenerationScheduler, Prefill, Step
from sandseal_host.serving.generation.seats import Action, Begin, Move, Save
from sandseal_host.serving.generation.sequence import Sequence
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.generation.writer import Delivery, Writer
from sandseal_host.serving.tally import Tally
from sandseal_host.serving.ticket import ENDED, TicketState

_LOOK_S = 1.0  # between two looks at whether others need memory


class Engine:
    """One decoder with its sequences; used by one thread.

    Args:
        decoder: has one slot more than the settings say, for prompts.
        scheduler: plans the steps.
        settings: bound what the host's memory keeps.
        lock: held around the scheduler, never during a run.
        spare: bytes that the host's memory has to spare now.
        clock: seconds, growing.
    """

    def __init__(
        self,
        decoder: DecoderRunner,
        scheduler: GenerationScheduler,
        settings: GenerationSettings,
        lock: Lock,
        spare: Callable[[], float] = lambda: float("inf"),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._decoder, self._scheduler, self._lock, self._clock = decoder, scheduler, lock, clock
        self._spare, self._look_at = spare, float("-inf")
        self._slots, self._host_bytes = settings.slots, settings.host_bytes
        self._position_bytes = decoder.slot_bytes // decoder.context
        self.sampler = Sampler(decoder.vocab)
        self.prefixes = PrefixCache()
        self.meter = Meter()
        self.tally = Tally()
        self.deliveries: list[Delivery] = []
        """What streams are to be given, in this order."""

    def execute(self, step: Step) -> None:
        """Do a step."""
        began = self._clock()
        for action in step.actions:
            self._copy(action)
        if step.actions:
            with self._lock:
                self._scheduler.copied(step.actions, self._clock() - began)
        if self._clock() >= self._look_at:
            self._look_at = self._clock() + _LOOK_S
            self._relieve()
        run = step.run
        if run is None:
            return
        began = self._clock()
        if isinstance(run, Prefill):
            self._prefill(run)
        else:
            self._decode(run)
        seconds = self._clock() - began
        self.tally.batch(len(run.rows) if isinstance(run, Decode) else 1, seconds, time())
        with self._lock:
            self._scheduler.done(run, seconds)

    def fail(self, sequence: Sequence, error: Exception) -> None:
        """End a sequence, and its stream with an error."""
        self._end(sequence)
        self.tell(sequence, error)

    def tell(self, sequence: Sequence, error: Exception) -> None:
        """End the stream of a sequence that has ended."""
        self.tally.failed += 1
        writer = _writer(sequence)
        writer.close()
        self.deliveries.append(writer.fail(error))

    def cancel(self, sequence: Sequence) -> None:
        """End a sequence whose stream has ended."""
        self._end(sequence, TicketState.CANCELLED)

    def answered(self, sequence: Sequence, answer: Logits | HostError) -> None:
        """Go on with logits that were looked at, in whatever state the sequence is by now."""
        if sequence.state in ENDED:
            return
        sequence.asked = False
        if isinstance(answer, HostError):
            self.fail(sequence, answer)
        else:
            self._choose([sequence], answer[None])

    def _end(self, sequence: Sequence, state: TicketState = TicketState.DONE) -> None:
        _writer(sequence).close()
        with self._lock:
            self._scheduler.end(sequence, self._clock(), state)

    # Runs

    def _prefill(self, run: Prefill) -> None:
        sequence = run.sequence
        ids = sequence.tokens[sequence.length : sequence.length + run.tokens]
        try:
            logits = self._decoder.prefill(self._slots, ids, sequence.length)
        except HostError as error:
            self.fail(sequence, error)
            return
        sequence.length += run.tokens
        self.meter.prompt_tokens += run.tokens
        if run.last:
            self._keep_prompt(sequence)
            self._look([sequence], logits[None])

    def _decode(self, run: Decode) -> None:
        rows = run.rows
        try:
            logits = self._decoder.decode([s.tokens[-1] for s in rows], [s.length for s in rows])
        except ModelFailed as error:
            if len(rows) == 1:
                self.fail(rows[0], error)
            else:
                self._decode_alone(rows)
            return
        except HostError as error:  # what no row can be the cause of
            for sequence in rows:
                self.fail(sequence, copy(error))
            return
        going = [i for i, sequence in enumerate(rows) if not sequence.held]
        for i in going:
            rows[i].length += 1
        self._look([rows[i] for i in going], logits if len(going) == len(rows) else logits[going])

    def _decode_alone(self, rows: tuple[Sequence, ...]) -> None:
        """Run the rows of a decode that failed again, each by itself and once, so that one which cannot fails alone."""
        for slot, sequence in enumerate(rows):
            if sequence.held:
                continue
            try:
                logits = self._decoder.prefill(slot, sequence.tokens[-1:], sequence.length)
            except HostError as error:
                self.fail(sequence, error)
            else:
                sequence.length += 1
                self._look([sequence], logits[None])

    def _look(self, sequences: list[Sequence], logits: Logits) -> None:
        """Choose where nothing else looks at the logits; the others are held until it has."""
        free = []
        for i, sequence in enumerate(sequences):
            writer = _writer(sequence)
            if writer.constraint is None:
                free.append(i)
                continue
            sequence.asked, known = True, len(sequence.request.prompt) + writer.told
            writer.told = len(sequence.tokens) - len(sequence.request.prompt)
            writer.constraint.ask(sequence.tokens[known:], logits[i].copy())
        if free:
            self._choose([sequences[i] for i in free], logits if len(free) == len(sequences) else logits[free])

    def _choose(self, sequences: list[Sequence], logits: Logits) -> None:
        """Give each sequence its next token."""
        choices = self.sampler.sample(logits, [_writer(sequence).row for sequence in sequences])
        now = self._clock()
        for sequence, choice in zip(sequences, choices, strict=True):
            if isinstance(choice, Choice):
                self._accept(sequence, choice, now)
            else:
                self.fail(sequence, choice)

    def _accept(self, sequence: Sequence, choice: Choice, now: float) -> None:
        writer = _writer(sequence)
        self.meter.token(sequence.request.arrival, writer.last, now)
        sequence.tokens.append(choice.token)
        piece, last = writer.accept(choice, now)
        if last:
            self._end(sequence)
            timings = writer.timings()
            self.tally.answered(writer.usage.completion_tokens, timings.queue, timings.prefill + timings.decode)
        if piece is not None:
            self.deliveries.append(writer.deliver(piece))

    # Copies

    def _copy(self, action: Action) -> None:
        sequence = action.sequence
        if isinstance(action, Move):
            self._decoder.move(action.source, action.target, sequence.length)
        elif isinstance(action, Save):
            self._save(sequence, action.slot)
        elif isinstance(action, Begin):
            self._begin(sequence, action.slot)
        elif sequence.kv is not None:
            self._decoder.restore(action.slot, sequence.kv)
            sequence.kv = None

    def _begin(self, sequence: Sequence, slot: int) -> None:
        """Spare what an earlier prompt has in common with this one."""
        kv = self.prefixes.find(sequence.tenant, sequence.tokens)
        if kv is not None:
            self._decoder.restore(slot, kv)
            sequence.length = kv.length
        _writer(sequence).begin(self._clock(), sequence.length)

    def _save(self, sequence: Sequence, slot: int) -> None:
        """Keep what a paused sequence has, if there is room; else it is run again."""
        if sequence.state is not TicketState.PAUSED or not sequence.length:
            return
        if self._fits(sequence.length):
            sequence.kv = self._decoder.save(slot, sequence.length)
        else:
            self._forget(sequence)

    def _keep_prompt(self, sequence: Sequence) -> None:
        """Keep a prompt that was run for the first time, for those that begin like it."""
        prompt = sequence.request.prompt
        if len(sequence.tokens) > len(prompt) or not self.prefixes.wants(sequence.tenant, prompt):
            return
        if self._fits(len(prompt)):
            self.prefixes.add(sequence.tenant, prompt, self._decoder.save(self._slots, len(prompt)))

    def _relieve(self) -> None:
        """Give back what others have come to need of the host's memory: prompts first, then what can be run again."""
        lacking = -self._spare()
        if lacking <= 0:
            return
        kept = self.prefixes.nbytes
        self.prefixes.shrink(max(0, int(kept - lacking)))
        lacking -= kept - self.prefixes.nbytes
        with self._lock:
            paused = [sequence for sequence in self._scheduler.all() if sequence.kv is not None]
        for sequence in sorted(paused, key=lambda each: (-each.level, -each.virtual_deadline)):
            if lacking > 0 and sequence.kv is not None:
                lacking -= sequence.kv.nbytes
                self._forget(sequence)

    def _forget(self, sequence: Sequence) -> None:
        """Let a paused sequence be run again from its first token."""
        sequence.kv, sequence.length = None, 0
        self.meter.recomputed += 1

    def _fits(self, length: int) -> bool:
        """Whether so many positions more may be kept; prompts that were kept give way."""
        size = length * self._position_bytes
        with self._lock:
            left = self._host_bytes - self._scheduler.paused_bytes() - size
        if left < 0:
            return False
        self.prefixes.shrink(left if self._spare() >= size else 0)
        return self._spare() >= size


def _writer(sequence: Sequence) -> Writer:
    writer = sequence.answer
    assert isinstance(writer, Writer)  # noqa: S101  # the lane made it so
    return writer
