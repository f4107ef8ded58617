"""Arrays: arithmetic and reductions"""

import numpy as np
from numpy import exp


def arithmetic(x, i):
    """`+ - * / ** // % abs` with numbers and broadcasting; float32 stays float32"""
    return (x + i) * 2 - x / 3 + x**2 - x // 2 + x % 3 + abs(x) - -x


def promotion(x, image, k):
    """uint8 wraps around, uint8 with float32 is float32"""
    flat = image[0, :, 0]
    wrapped = flat * np.uint8(3) + np.uint8(100)
    return wrapped[0] * np.float32(1.5) + (flat[:3] / np.float32(255)).sum() + (k * 0.1).sum()


def float_division(image):
    """`image / 255` is float64, `image / np.float32(255)` float32"""
    return (image / 255).sum() + (image / np.float32(255)).sum()


def integer_arrays(k):
    """`+ - * // % << & | ^ ~` of integer arrays; `/` gives float64"""
    return (k // 3) * 2 + k % 3 + (k << 2) + (k & 6) + (k | 1) + (k ^ 5) + ~k - (k * 1000003 * 1000003)


def comparisons(x, y):
    """`a < b`, `a == b`, `&`, `|`, `~` of masks, `np.logical_and`"""
    mask = (x > 0) & (x < 3) | (x == y) | ~(x <= 2)
    return np.logical_and(mask, x != 1) | np.logical_not(mask) | np.logical_or(mask, y > 0)


def elementwise(x):
    """`np.exp log sqrt sin cos tan tanh arctan log1p expm1 square sign floor ceil trunc rint abs`"""
    a = np.abs(x) + 1
    first = np.exp(-a) + np.log(a) + np.sqrt(a) + np.sin(x) + np.cos(x) + np.tanh(x) + np.arctan(x) + exp(-a)
    return (
        first
        + np.log1p(a)
        + np.expm1(-a)
        + np.square(x)
        + np.sign(x)
        + np.floor(x)
        + np.ceil(x)
        + np.trunc(x)
        + np.rint(x)
    )


def two_arrays(x, y):
    """`np.maximum minimum power arctan2 hypot mod`"""
    a = np.abs(y) + 1
    return np.maximum(x, y) + np.minimum(x, y) + np.power(a, 2) + np.arctan2(x, a) + np.hypot(x, a) + np.mod(x, a)


def clipped(x):
    """`np.clip`, `np.round`, `np.isfinite`"""
    return np.clip(x, -1, 1.5) + np.round(x * 2) + np.isfinite(x)


def reductions(m):
    """`sum prod min max mean std var`, of all elements, as functions and methods"""
    parts = [m.sum(), np.sum(m), m.min(), m.max(), np.max(m), m.mean(), np.mean(m), m.std(), m.var(), np.prod(m[0])]
    return np.array(parts, np.float64)


def along_an_axis(m):
    """`a.sum(axis=0)`, `np.max(a, axis=1)`, `mean`, `argmax` along an axis"""
    columns = m.sum(axis=0) + np.max(m, axis=0) + m.mean(axis=0) + m.min(0)
    return np.concatenate((columns, m.sum(axis=1), np.max(m, axis=1), np.argmax(m, axis=1)))


def keeping_axes(m):
    """`a - np.max(a, axis=1)[:, None]`: softmax by rows"""
    e = np.exp(m - np.max(m, axis=1)[:, None])
    return e / np.sum(e, axis=1)[:, None]


def positions(x, m):
    """`argmax`, `argmin`, `np.argsort`"""
    return np.array([np.argmax(x), np.argmin(x), np.argmax(m), m.argmin(), np.argsort(x)[0]])


def sorting(x):
    """`np.sort`, `a[np.argsort(a)]`, `np.unique`"""
    s = np.sort(x)
    return np.concatenate((s, x[np.argsort(x)], np.unique(np.array([3, 1, 3, 2]))[:2] * s[:2]))


def cumulated(x):
    """`np.cumsum`, `np.diff`, `np.cumprod`"""
    return np.cumsum(x)[1:] + np.diff(x) + np.cumprod(x)[1:]


def products(m, x):
    """`np.dot`, `@`, `np.outer`, `np.inner`"""
    return np.array([np.dot(x[:3], m[0, :3]), (m @ m.T)[0, 1], np.outer(x, x)[1, 0], np.inner(x, x)])


def counted(x, k):
    """`np.any`, `np.all`, `np.count_nonzero`, `np.bincount`"""
    return np.array([int(np.any(x > 2)), int(np.all(x > -100)), np.count_nonzero(x > 0), np.bincount(abs(k) % 4)[1]])


def integer_sums(image, k):
    """`sum` of small integers adds up in 64 bits"""
    return image.sum() + image[0].astype(np.int32).sum() + k.sum() + image.max() + (image > 100).sum()


def float32_sums(x):
    """`sum` and `mean` of float32 stay float32"""
    return x.sum() / np.float32(3) + x.mean()


def unit_length(x):
    """`np.linalg.norm`, division by it"""
    return x / np.linalg.norm(x)
