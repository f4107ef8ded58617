"""Magika's 214 scores to the five best labels, the first of them being Magika's own final answer."""

import numpy as np

K = 5


def name_types(scores, table):
    if scores.shape[0] != 1:
        raise ValueError("send one file at a time")
    rows = [line.split("\t") for line in table.strip().split("\n")]
    left = scores[0].copy()
    ranking = []
    for _ in range(K):
        best = np.argmax(left)
        ranking.append(best)
        left[best] = -1
    first = ranking[0]
    raw, threshold, sure, unsure = rows[first]
    final = sure if float(scores[0, first]) >= float(threshold) else unsure
    labels = [final]
    picked = [first]
    if final != raw:  # overruled: the model's own best guess comes second
        labels.append(raw)
        picked.append(first)
    for best in ranking[1 : 1 + K - len(labels)]:
        labels.append(rows[best][0])
        picked.append(best)
    return labels, scores[0, picked]
