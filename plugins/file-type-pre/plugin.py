"""The bytes of a file to the features of Magika's standard_v3_3 model: its first and last 1,024 bytes, stripped."""

import numpy as np

BLOCK = 4096  # bytes that are looked at, at either end
SIDE = 1024  # features per end
PADDING = 256  # what stands where there is no byte
LEAST = 8  # bytes that the model needs after leading white space


def is_space(byte):
    return byte == 32 or 9 <= byte <= 13


def extract_features(content):
    if content.size == 0:
        raise ValueError("the file is empty")
    head = content[:BLOCK]
    start = 0
    while start < head.size and is_space(head[start]):
        start += 1
    head = head[start : start + SIDE]
    tail = content[max(0, content.size - BLOCK) :]
    stop = tail.size
    while stop > 0 and is_space(tail[stop - 1]):
        stop -= 1
    tail = tail[max(0, stop - SIDE) : stop]
    if content.size < LEAST or head.size < LEAST:
        raise ValueError("the file has fewer than 8 bytes after leading white space: too few for the model")
    features = np.full((1, 2 * SIDE), PADDING, np.int32)
    features[0, : head.size] = head
    features[0, 2 * SIDE - tail.size :] = tail
    return features
