"""What an assembly makes of a bundle."""

from typing import NamedTuple

from sandseal_host.runtime.decoder import Decoder
from sandseal_host.runtime.replicas import Replicas
from sandseal_host.sandbox.runners import StageRunner
from sandseal_host.serving.generation.text import Text
from sandseal_host.serving.guarded_stage import GuardedStage
from sandseal_host.serving.pipeline import StepPlugins


class BuiltModel(NamedTuple):
    """A bundle's sessions and its stages."""

    runner: Replicas
    pre: GuardedStage | None
    post: GuardedStage | None


class BuiltDecoder(NamedTuple):
    """A bundle that generates text."""

    decoder: Decoder
    text: Text
    logits: StageRunner | None


class BuiltPipeline(NamedTuple):
    """A pipeline's own plugins; its models are other bundles'."""

    plugins: StepPlugins


Built = BuiltModel | BuiltDecoder | BuiltPipeline


def close(built: Built) -> None:
    """Give back all that it holds; blocks."""
    for part in built:
        if part is not None:
            part.close()
