"""What any source of a language model gives: its shape, its weights row by row, and how it turns text into tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sandseal_sdk.decoders.rope import Rope
from sandseal_sdk.errors import ModelUnreadable
from sandseal_signing.generation import MAX_CONTEXT


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """The sizes of a decoder of the Llama family.

    Args:
        context: the most positions of a sequence.
        rope: turns queries and keys by their positions.
        interleaved: whether neighbours are turned against each other, instead of the two halves of a head.
        window: how far back a position sees; None = to the start.
    """

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    context: int
    norm_epsilon: float
    rope: Rope
    interleaved: bool = False
    window: int | None = None

    def __post_init__(self) -> None:
        sizes = (self.vocab, self.hidden, self.layers, self.heads, self.kv_heads, self.intermediate, self.context)
        if min(sizes) < 1 or self.heads % self.kv_heads or self.context > MAX_CONTEXT:
            raise ModelUnreadable(f"the model's sizes make no sense: {sizes}")


class Weight(Protocol):
    """One tensor of weights, read a few rows at a time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """[rows, columns], or [columns] for a vector, which counts as one row."""
        ...

    @property
    def row_bytes(self) -> int:
        """That a row takes in its file."""
        ...

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Some rows, [stop - start, columns]."""
        ...


@dataclass(frozen=True, slots=True)
class TextParts:
    """What turns text into tokens and back, and when to stop.

    Args:
        tokenizer: a `tokenizer.json`.
        chat_template: Jinja; None where the model has none.
        stop_ids: tokens that end a sequence.
        add_bos: the token in front of every prompt, if any.
        defaults: of sampling, as `generation.defaults` in the manifest.
    """

    tokenizer: bytes
    chat_template: str | None = None
    stop_ids: tuple[int, ...] = ()
    add_bos: int | None = None
    defaults: Mapping[str, float | int] = field(default_factory=dict)


class DecoderSource(Protocol):
    """A language model before its import, open until the end of its `with`.

    Args:
        shape: of the decoder.
        text: its tokenizer and the like.
        description: what it is, in a few words.
        licence: as the model states it; may be empty.
        size: bytes of all weights.
    """

    shape: DecoderShape
    text: TextParts
    description: str
    licence: str
    size: int

    def weight(self, name: str) -> Weight | None:
        """A weight by its name here; None where the model has no such weight.

        Args:
            name: `embedding`, `norm` or `head`; of a layer, `layers.{i}.` and `attention_norm`, `query`, `key`,
                `value`, `query_bias`, `key_bias`, `value_bias`, `attention_output`, `mlp_norm`, `gate`, `up` or `down`.
        """
        ...

    def unused(self) -> tuple[str, ...]:
        """The tensors that nobody asked for yet, by their names there."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def renamed(name: str, model: Mapping[str, str], layer: Mapping[str, str], block: str) -> str:
    """A weight's name in another format.

    Args:
        name: as `DecoderSource.weight` takes it.
        model, layer: the other names of the model's own weights, and of a layer's.
        block: what is put before a layer's number there.
    """
    if name in model:
        return model[name]
    _, number, what = name.split(".")
    return f"{block}.{number}.{layer[what]}"
