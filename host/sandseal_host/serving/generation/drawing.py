"""Drawing a token from one row of logits.

A draw costs most where the whole vocabulary has to be exponentiated and added up, so what top-k and min-p leave is
found among the logits first.
"""

import math

import numpy as np
from numpy.typing import NDArray

_TINY = float(np.finfo(np.float32).tiny)
_BLOCK = 256  # weights that are added up before they are looked at
_REACHES = (8, 16, 32)  # how far below the likeliest token, in nats, the likeliest ones are looked for

Floats = NDArray[np.float32]


def draw(logits: Floats, temperature: float, top_k: int, top_p: float, min_p: float, number: float) -> int:
    """The token that a number stands for.

    Args:
        logits: FP32 [vocab], at least one of them finite and none of them NaN; overwritten.
        temperature, top_k, top_p, min_p: see `Sampling`.
        number: from 0 to 1, exclusive.
    """
    scores = np.subtract(logits, logits.max(), out=logits)
    with np.errstate(over="ignore"):
        scores /= max(temperature, _TINY)
    least = math.log(min_p) if min_p > 0 and top_p == 1 else -math.inf
    if 0 < top_k < scores.size:
        least = max(least, _kth(scores, top_k))
    ids = np.flatnonzero(scores >= least) if least > -math.inf else None
    weights = np.exp(scores, out=scores) if ids is None else np.exp(scores[ids])
    if top_p < 1:
        kept = np.flatnonzero(weights >= max(_nucleus(weights, top_p), min_p))
        ids, weights = kept if ids is None else ids[kept], weights[kept]
    if ids is None:
        return _of_all(weights, number)
    sums = np.cumsum(weights, dtype=np.float64)
    return int(ids[np.searchsorted(sums, number * sums[-1], side="right")])


def _kth(scores: Floats, count: int) -> float:
    """The least of the `count` largest scores; the largest of all is 0."""
    for reach in _REACHES:
        near = scores[scores >= -reach]
        if near.size >= count:
            return float(np.partition(near, -count)[-count])
    return float(np.partition(scores, -count)[-count])


def _nucleus(weights: Floats, top_p: float) -> float:
    """The least of the largest weights that have together this share of all; the largest of all is 1."""
    goal, least = max(top_p, _TINY) * float(weights.sum()), 1.0
    largest = weights[:0]
    while least > _TINY and float(largest.sum()) < goal:  # few are large, and only those are sorted
        least /= 16
        largest = weights[weights >= least]
    largest = np.sort(largest)[::-1]
    place = int(np.searchsorted(np.cumsum(largest, dtype=np.float64), goal))
    return float(largest[min(place, largest.size - 1)])


def _of_all(weights: Floats, number: float) -> int:
    """The token where the whole vocabulary stays: first which block, since most need no look inside."""
    sums = np.cumsum(np.add.reduceat(weights, np.arange(0, weights.size, _BLOCK)), dtype=np.float64)
    rest = number * sums[-1]
    block = int(np.searchsorted(sums, rest, side="right"))
    inside = np.cumsum(weights[block * _BLOCK : (block + 1) * _BLOCK], dtype=np.float64)
    # The two sums of a block may differ in their last bits; what they differ by is nobody's.
    rest = min(rest - float(sums[block - 1] if block else 0), float(np.nextafter(inside[-1], 0)))
    return block * _BLOCK + int(np.searchsorted(inside, rest, side="right"))
