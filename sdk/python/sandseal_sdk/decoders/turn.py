"""Turning what a decoder's layers hand each other, so that no channel is larger than the others.

A few channels of a language model are many times as large as the rest, and leave the rest few steps of 8 bits. An
orthogonal turn of all of them mixes them, and changes nothing that the model computes, once the weights of each norm
are part of the matrices behind it (QuaRot, arXiv 2404.00456).
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]


class Turn:
    """The same orthogonal matrix for every model of a width: signs, then a Hadamard matrix, then a small matrix.

    Args:
        width: its rows and columns; the Hadamard matrix is as large as the largest power of two that divides it.
    """

    def __init__(self, width: int) -> None:
        rng = np.random.default_rng(1)
        self._hadamard = width & -width
        self._signs = rng.choice(np.array([-1, 1], np.float32), width)
        rest = rng.standard_normal((width // self._hadamard,) * 2)
        self._rest = np.asarray(np.linalg.qr(rest)[0], np.float32)

    def rows(self, rows: Floats) -> Floats:
        """Rows [count, width] times the matrix."""
        parts = (rows * self._signs).reshape(len(rows), -1, self._hadamard)
        return np.asarray(np.matmul(self._rest, _hadamard(parts)).reshape(rows.shape), np.float32)

    def columns(self, columns: Floats) -> Floats:
        """The matrix's transpose times columns [width, count]."""
        return np.ascontiguousarray(self.rows(columns.T).T)


def _hadamard(parts: Floats) -> Floats:
    """Each last axis, of a power of two, times Sylvester's matrix, whose rows have the length 1 here."""
    shape, step = parts.shape, 1
    while step < shape[-1]:
        pairs = parts.reshape(-1, 2, step)
        parts = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        step *= 2
    return parts.reshape(shape) / np.float32(shape[-1] ** 0.5)
