"""A sentence encoder's token vectors to one vector per text: their mean, scaled to length 1."""

import numpy as np


def pool(tokens):
    mean = tokens.mean(1)
    return mean / np.sqrt((mean * mean).sum(1))[:, np.newaxis]
