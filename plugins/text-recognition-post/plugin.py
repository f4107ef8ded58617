"""A recogniser's scores to text: the best class of every step, repeats and blanks left out (greedy CTC)."""

import numpy as np

BLANK = 0


def decode(scores, characters):
    if scores.shape[0] != 1:
        raise ValueError("send one line of text at a time")
    alphabet = characters.split("\n")
    text = ""
    total = 0.0
    count = 0
    previous = BLANK
    for step in scores[0]:
        best = np.argmax(step)
        if best != BLANK and best != previous:
            text += alphabet[best - 1]
            total += step[best]
            count += 1
        previous = best
    return text, np.full(1, total / max(1, count), np.float32)
