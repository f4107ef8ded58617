"""Weights in 8 or 4 bits: in blocks of 32 along a row, as ONNX Runtime's MatMulNBits takes them, or in whole rows."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
_SHRINKS = np.linspace(0.8, 1.0, 9, dtype=np.float32)
"""How much of a block's range its 16 steps span: a few outliers may be cut off for the sake of the rest."""

Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]
Signed: TypeAlias = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Quantised:
    """Some rows.

    Args:
        packed: UINT8 [rows, blocks, 32 or 16]; of two 4-bit numbers in a byte, the first is the low one.
        scales: FP32 [rows, blocks].
        zeros: where 0.0 lies, UINT8 [rows, blocks, rounded up to whole bytes]; None = 128 everywhere.
    """

    packed: Bytes
    scales: Floats
    zeros: Bytes | None


def quantise(rows: Floats, bits: int) -> Quantised:
    """Quantise rows, [rows, columns]; columns are filled up with zeros to a multiple of 32.

    Args:
        bits: 8 or 4.
    """
    blocks = np.pad(rows, ((0, 0), (0, -rows.shape[1] % BLOCK))).reshape(len(rows), -1, BLOCK)
    return _eight(blocks) if bits == 8 else _four(blocks)


def quantise_rows(rows: Floats, bits: int) -> tuple[Bytes | Signed, Floats]:
    """Rows [rows, columns] in whole numbers, and their scales [rows].

    Args:
        bits: 8, of UINT8, where 128 is 0.0; or 7, of INT8.
    """
    if bits == 8:
        found = _eight(rows)
        return found.packed, found.scales
    steps, scales = _rounded(rows, 63)
    return steps.astype(np.int8), scales


def _eight(blocks: Floats) -> Quantised:
    steps, scales = _rounded(blocks, 127)
    return Quantised((steps + 128).astype(np.uint8), scales, None)


def _rounded(blocks: Floats, most: int) -> tuple[Floats, Floats]:
    """Whole numbers from -most to most, and what each block has of one."""
    scales = np.abs(blocks).max(axis=-1) / np.float32(most)
    return np.rint(blocks / _divisor(scales)[..., None]), scales


def _four(blocks: Floats) -> Quantised:
    """Of several ranges, the one with the least squared error, block by block."""
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    shape = blocks.shape[:-1]
    best, error = (np.zeros(shape, np.float32), np.zeros(shape, np.float32)), np.full(shape, np.inf, np.float32)
    for shrink in _SHRINKS:
        scales = shrink * (high - low) / np.float32(15)
        zeros = np.clip(np.rint(-shrink * low / _divisor(scales)), 0, 15)
        steps = _steps(blocks, scales, zeros) - zeros[..., None]
        squared = np.square(steps * scales[..., None] - blocks).sum(-1)
        better = squared < error
        error = np.where(better, squared, error)
        best = np.where(better, scales, best[0]), np.where(better, zeros, best[1])
    scales, zeros = best
    return Quantised(_pairs(_steps(blocks, scales, zeros)), scales, _pairs(zeros))


def _steps(blocks: Floats, scales: Floats, zeros: Floats) -> Floats:
    return np.asarray(np.clip(np.rint(blocks / _divisor(scales)[..., None]) + zeros[..., None], 0, 15))


def _divisor(scales: Floats) -> Floats:
    return np.where(scales == 0, np.float32(1), scales)


def _pairs(numbers: Floats) -> Bytes:
    """Two numbers of the last axis in each byte, the first one low."""
    even = np.pad(numbers.astype(np.uint8), [(0, 0)] * (numbers.ndim - 1) + [(0, numbers.shape[-1] % 2)])
    return np.asarray(even[..., ::2] | even[..., 1::2] << 4, np.uint8)
