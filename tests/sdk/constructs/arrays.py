"""Arrays: making, indexing, shapes"""

import numpy as np

TABLE = np.arange(12, dtype=np.int64).reshape(3, 4)
SCALE = np.array([0.5, 0.25, 2], np.float32)


def made(i):
    """`np.zeros ones full empty`, of a shape and dtype"""
    a = np.empty((2, 3), np.float32)
    a[:] = 7
    return np.zeros((2, 3), np.float32) + np.ones((2, 3), np.float32) * np.full((2, 3), 4, np.float32) + a


def made_like(x):
    """`np.zeros_like`, `np.ones_like`, `np.full_like`, `copy`"""
    y = x.copy()
    y[0] = 100
    return np.zeros_like(x) + np.ones_like(x) * np.full_like(x, 3) + y + x


def ranges(i):
    """`np.arange`, `np.linspace`, `np.eye`"""
    return np.arange(2, 11, 3) + np.linspace(0, 1, 3) + np.eye(3)[1]


def from_lists(i, j):
    """`np.array([...], dtype)`, `np.array(list)`, `tolist`"""
    a = np.array([i, j, 3])
    b = np.array([[1.5, 2], [3, i]], np.float32)
    return np.array([a[0] * 2, int(b[1, 1]), len(a.tolist())])


def elements(m, x):
    """`a[i]`, `a[-1]`, `a[i, j]`, `a[i][j]`, and setting them"""
    b = m.copy()
    b[0, 1] = 9
    b[-1, -1] += 1
    return np.array([x[0], x[-1], m[1, 2], m[-1][0], b[0][1], b[-1, -1], b.sum()], np.float32)


def slices(m):
    """`a[a:b]`, `a[:, 1:]`, `a[::-1, ::2]`, and setting them"""
    b = m.copy()
    b[:, 0] = 0
    b[1, 1:] = m[0, :-1]
    b[0] = b[1] * 2
    return b[::-1, ::2]


def new_axes(x):
    """`a[:, None]`, `a[None, :]`, `np.expand_dims`"""
    return x[:, None] * x[None, :] + np.expand_dims(x, 0)


def masks(x):
    """`a[a > 0]`, `a[mask] = y`, `np.where(c, a, b)`"""
    y = x.copy()
    y[y < 0] = 0
    return np.concatenate((x[x > 0], y, np.where(x > 1, x, -x)))


def index_arrays(x, k):
    """`a[indices]`, `np.nonzero`"""
    indices = np.array(k % x.size)
    positive = np.nonzero(x > 0)[0]
    return np.concatenate((x[indices], x[positive]))


def shapes(m):
    """`shape`, `ndim`, `size`, `len`, `dtype`"""
    rows, columns = m.shape
    return np.array([rows, columns, m.ndim, m.size, len(m), m.shape[0], np.zeros(2, m.dtype).size])


def reshaped(m):
    """`reshape`, also with -1, `ravel`, `flatten`"""
    return m.reshape(-1)[:4] + m.reshape((m.size,))[2:6] + m.ravel()[:4] + m.flatten()[:4]


def transposed(image):
    """`transpose(2, 0, 1)`, `.T`, `np.transpose`"""
    return image.transpose(2, 0, 1)[:, 0, :] + np.transpose(image, (2, 1, 0))[:, :, 1]


def joined(x):
    """`np.concatenate`, `np.stack`, `np.vstack`, `np.hstack`"""
    return np.concatenate((np.stack((x, x * 2)), np.vstack((x, x)), np.stack([x, x])))


def joined_flat(x):
    """`np.append`, `np.hstack`, `np.tile`, `np.repeat`"""
    return np.concatenate((np.hstack((x, x)), np.append(x, x), np.tile(x, 2), np.repeat(x, 2)))


def padded(x):
    """padding by hand: `np.zeros`, then a slice"""
    out = np.zeros(x.size + 4, np.float32)
    out[2 : 2 + x.size] = x
    return out


def turned(m):
    """`np.flip`, `np.fliplr`, `np.flipud`, `np.roll`"""
    return np.flip(m, 0) + np.fliplr(m) + np.flipud(m) + np.roll(m, 1)


def tables(m):
    """arrays at the top level of the module"""
    return TABLE[1:] + (m[0, :3] * SCALE).sum() + TABLE.sum()


def changed_in_place(x):
    """`a += y`, `a[1:] *= y`, `-=`, `/=`"""
    y = x * 2
    y += 1
    y[1:] *= 3
    y -= x
    y /= 2
    return y


def loops(m):
    """loops over rows, over indices, `enumerate`"""
    total = np.zeros(m.shape[1], np.float32)
    for row in m:
        total += row
    for r in range(m.shape[0]):
        for c in range(m.shape[1]):
            total[c] += m[r, c] * r
    for n, row in enumerate(m):
        total[n] += row[0]
    return total


def cast(x, image):
    """`astype`, `np.float32(a)`"""
    return x.astype(np.int64) + x.astype(np.float64) * 0.5 + np.float32(image[0, :3, 0]).sum()
