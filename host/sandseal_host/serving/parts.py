"""What a loaded model consists of, and what it counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandseal_host.serving.cache import ModelCache, ModelCacheStatistics
from sandseal_host.serving.generation.lane import GenerationLane, GenerationStatistics
from sandseal_host.serving.generation.text import Text
from sandseal_host.serving.guarded_stage import GuardedStage, StageStatistics
from sandseal_host.serving.lane import Lane, LaneStatistics
from sandseal_host.serving.pipeline import Pipeline, PipelineStatistics
from sandseal_host.serving.ports import Closeable
from sandseal_host.serving.sequences import Sequences, SequenceStatistics
from sandseal_host.serving.states import ModelState
from sandseal_host.serving.tally import Served
from sandseal_signing.variants import Precision


@dataclass(frozen=True, slots=True)
class ModelParts:
    """What a loaded model runs on; the model closes them when it is unloaded.

    Args:
        runner: the session, the decoder, or a pipeline's plugins.
        lane: its queue and threads; what it is says whether the model generates text, or is a pipeline.
        pre: makes the model's inputs out of the public ones.
        post: makes the public outputs out of the model's.
        resident: by device: bytes that loading them took.
        bundle: what the runner still reads from.
        precision: of the variant that serves; None for a model that has but one graph.
        text: makes the prompts of a model that generates text.
        logits: has the plugin that looks at its logits.
        cache: of its answers.
        sequences: that it goes through.
        staged: whether there is more to a request's way than the lane.
    """

    runner: Closeable
    lane: Lane | GenerationLane | Pipeline
    pre: GuardedStage | None = None
    post: GuardedStage | None = None
    resident: Mapping[str, int] = field(default_factory=dict)
    bundle: Closeable | None = None
    precision: Precision | None = None
    text: Text | None = None
    logits: Closeable | None = None
    cache: ModelCache | None = None
    sequences: Sequences | None = None
    staged: bool = field(init=False)

    def __post_init__(self) -> None:
        parts = (self.pre, self.post, self.cache, self.sequences)
        staged = isinstance(self.lane, Pipeline) or any(part is not None for part in parts)
        object.__setattr__(self, "staged", staged)

    def served(self, pre_s: float, post_s: float) -> Served:
        """What was answered since the model was loaded, with the seconds that its stages took."""
        tally = self.lane.tally
        cache = self.cache.statistics() if self.cache else ModelCacheStatistics(0, 0, 0.0, 0.0)
        return Served(
            requests=tally.requests + cache.hits_total,
            rows=tally.rows,
            failed=tally.failed + self.lane.refused,
            queue_s=tally.queue_s,
            run_s=tally.run_s,
            pre_s=pre_s,
            post_s=post_s,
            last=tally.last,
            batches=dict(tally.batches),
            resident=self.resident,
            hits=cache.hits_total,
            hits_s=cache.hits_s,
            misses=cache.misses_total,
            misses_s=cache.misses_s,
        )

    def forget(self) -> None:
        """Drop what is kept of requests and sequences."""
        for part in (self.cache, self.sequences):
            if part is not None:
                part.close()

    def close(self) -> None:
        """Give all memory back, and last of all what it lay in; blocks."""
        for part in (self.pre, self.post, self.logits, self.text, self.runner, self.bundle):
            if part is not None:
                part.close()


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """A model's counts.

    Args:
        state: the present one.
        in_flight: requests that are not answered yet.
        resident_bytes: how much the process grew by loading it.
        lane: None until it is loaded, and for one that generates text or is a pipeline.
        pre, post: None until it is loaded, and without such a stage.
        generation, text: only of one that generates text: its lane, its tokenizer.
        cache, sequences: only of one that has them.
        pipeline: only of one.
    """

    state: ModelState
    in_flight: int
    resident_bytes: int
    lane: LaneStatistics | None
    pre: StageStatistics | None = None
    post: StageStatistics | None = None
    generation: GenerationStatistics | None = None
    cache: ModelCacheStatistics | None = None
    sequences: SequenceStatistics | None = None
    text: object = None
    pipeline: PipelineStatistics | None = None
