"""A classifier's scores to the five best labels, with their probabilities."""

import numpy as np

K = 5


def probabilities(scores):
    """Softmax, unless the model has done it already."""
    if scores.min() >= 0 and abs(scores.sum() - 1) < 1e-3:
        return scores
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def name_classes(scores, labels):
    if scores.shape[0] != 1:
        raise ValueError("send one image at a time")
    names = labels.strip().split("\n")
    left = probabilities(np.array(scores[0]))
    best = [0 for _ in range(0)]
    values = []
    for _ in range(min(K, left.size)):
        index = np.argmax(left)
        best.append(index)
        values.append(left[index])
        left[index] = -1
    return [names[index] for index in best], np.array(values, np.float32)
