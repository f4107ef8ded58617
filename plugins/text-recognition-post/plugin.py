"""A recogniser's scores to text: the best class of every step, repeats and blanks left out (greedy CTC)."""

import numpy as np

BLANK = 0


def decode(scores, characters):
    alphabet = characters.split("\n")
    texts = []
    means = np.zeros(scores.shape[0], np.float32)
    for row in range(scores.shape[0]):
        text = ""
        total = 0.0
        count = 0
        previous = BLANK
        for step in scores[row]:
            best = np.argmax(step)
            if best != BLANK and best != previous:
                text += alphabet[best - 1]
                total += step[best]
                count += 1
            previous = best
        texts.append(text)
        means[row] = total / max(1, count)
    return texts, means
