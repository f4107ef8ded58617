"""Rotary position embedding: the angles by which a decoder turns its queries and keys, with the usual scalings."""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported

Angles: TypeAlias = NDArray[np.float32]

_MAX_HEAD = 1024


@dataclass(frozen=True, slots=True)
class Rope:
    """How fast each pair of a head's numbers turns.

    Args:
        frequencies: radians per position, FP32 [head_dim / 2].
        magnitude: that cosines and sines are multiplied by.
    """

    frequencies: Angles
    magnitude: float = 1.0

    def turns(self, start: int, stop: int) -> tuple[Angles, Angles]:
        """Cosines and sines of some positions, each FP32 [stop - start, head_dim / 2].

        Computed in single precision, as the models were trained with.
        """
        angles = np.outer(np.arange(start, stop, dtype=np.float32), self.frequencies)
        return np.cos(angles) * np.float32(self.magnitude), np.sin(angles) * np.float32(self.magnitude)


def plain(theta: float, head_dim: int) -> Rope:
    """Frequencies that fall from 1 to nearly 1 / theta.

    Raises:
        ModelUnsupported: a size of heads that attention cannot be run with.
    """
    if head_dim % 8 or not 8 <= head_dim <= _MAX_HEAD:
        raise ModelUnsupported(f"heads of size {head_dim} cannot be run: it must be a multiple of 8, up to {_MAX_HEAD}")
    if not (theta > 0 and math.isfinite(theta)):
        raise ModelUnreadable(f"the base of the rotary embedding is {theta}, not a positive number")
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    return Rope((1.0 / np.float32(theta) ** exponents).astype(np.float32))


def divided(rope: Rope, factors: Any) -> Rope:
    """Slowed down by a factor, or by one per frequency."""
    return Rope((rope.frequencies / np.asarray(factors, np.float32)).astype(np.float32), rope.magnitude)


def llama3(rope: Rope, factor: float, low: float, high: float, original: int) -> Rope:
    """Low frequencies slowed down by `factor`, high ones kept, those between blended.

    Args:
        low, high: how often a kept or slowed frequency turns within the original context at least or at most.
        original: positions that the model was first trained with.
    """
    turns = original * rope.frequencies / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    frequencies = rope.frequencies * (kept + (1 - kept) / factor)
    return Rope(frequencies.astype(np.float32))


def yarn(
    rope: Rope,
    theta: float,
    factor: float,
    original: int,
    *,
    fast: float = 32.0,
    slow: float = 1.0,
    magnitude: float | None = None,
) -> Rope:
    """YaRN (arXiv 2309.00071): as `llama3`, with a linear blend between two dimensions, and larger cosines and sines.

    Args:
        fast, slow: turns within the original context at which the blend begins and ends.
        magnitude: 0.1 ln(factor) + 1 when absent.
    """
    half = len(rope.frequencies)

    def dimension(turns: float) -> float:
        return half * math.log(original / (turns * 2 * math.pi)) / math.log(theta)

    begin, end = max(math.floor(dimension(fast)), 0), min(math.ceil(dimension(slow)), 2 * half - 1)
    slowed = np.clip((np.arange(half) - begin) / max(end - begin, 0.001), 0.0, 1.0)
    frequencies = rope.frequencies * (1 - slowed + slowed / factor)
    if magnitude is None:
        magnitude = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
    return Rope(frequencies.astype(np.float32), magnitude)
