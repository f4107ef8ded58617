"""RGB pixels to what an ImageNet model takes: channels first, scaled to 0..1, standardised per channel."""

import numpy as np

# ImageNet's mean and standard deviation of red, green and blue.
MEAN = np.array([0.485, 0.456, 0.406], np.float32).reshape((3, 1, 1))
STD = np.array([0.229, 0.224, 0.225], np.float32).reshape((3, 1, 1))


def preprocess(image):
    planes = image.transpose(2, 0, 1)
    return np.expand_dims((planes / np.float32(255) - MEAN) / STD, 0)
