"""A piece of 16-bit speech, and the state after the piece before it, to what Silero's detector takes."""

import numpy as np

RATES = {576: 16000, 288: 8000}  # samples of a piece with the end of the one before it: sampling rate


def prepare(audio, state):
    if audio.size not in RATES:
        raise ValueError("send 64 + 512 samples (at 16 kHz) or 32 + 256 (at 8 kHz)")
    return np.expand_dims(audio / np.float32(32768), 0), state, RATES[audio.size]
