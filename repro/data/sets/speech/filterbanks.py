"""Log mel filterbanks of recorded speech. NumPy only.

As the common recipes for speech have them: frames of 25 ms every 10 ms, of each the mean subtracted, pre-emphasis 0.97,
a Povey window, the power spectrum of 512 points, 40 triangles equally spaced in mel between 20 Hz and 8 kHz, the
logarithm. The samples are 16-bit integers, not divided by 32,768. ``tests/golden/filterbanks.npz`` has the numbers of
two implementations of Kaldi's ``compute-fbank-feats`` with these settings.

Deviation: no dither, which Kaldi adds by default, so that the same recording always gives the same numbers.
"""

from functools import lru_cache
from typing import Any

import numpy as np

RATE = 16_000  # samples a second
CHANNELS = 40
FRAME, STEP = 400, 160  # samples
POINTS = 512
PRE_EMPHASIS = 0.97
LOWEST, HIGHEST = 20.0, 8_000.0  # Hz
FLOOR = 2.0**-23  # of an energy, before its logarithm
STILL = 1e-5  # least deviation of a channel: one that never changes becomes zeros
SETTINGS = {
    "rate": RATE, "channels": CHANNELS, "frame": FRAME, "step": STEP, "points": POINTS, "window": "povey",
    "pre_emphasis": PRE_EMPHASIS, "lowest": LOWEST, "highest": HIGHEST, "normalised": "mean and variance, utterance",
}  # fmt: skip

Floats = np.ndarray[Any, np.dtype[np.float64]]
Samples = np.ndarray[Any, np.dtype[np.int16]]


def filterbanks(samples: Samples) -> Floats:
    """Log energies of the mel bands of each frame, ``(T, 40)``; T is ``1 + (n - 400) // 160``, 0 for less than a frame.

    Args:
        samples: ``(n,)``, 16 bits, 16 kHz.
    """
    if len(samples) < FRAME:
        return np.zeros((0, CHANNELS))
    frames = np.lib.stride_tricks.sliding_window_view(samples, FRAME)[::STEP].astype(np.float64)
    frames -= frames.mean(axis=1, keepdims=True)
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)  # the first sample precedes itself
    spectrum = np.fft.rfft((frames - PRE_EMPHASIS * before) * window(), POINTS)
    energies = (spectrum.real**2 + spectrum.imag**2) @ mel_bands().T
    return np.log(np.maximum(energies, FLOOR))


def normalised(features: Floats) -> Floats:
    """Each channel of an utterance ``(T, 40)`` with mean 0 and variance 1."""
    centred = features - features.mean(axis=0)
    return centred / np.maximum(features.std(axis=0), STILL)


@lru_cache(maxsize=1)
def window() -> Floats:
    """Povey's: Hann's to the power of 0.85, ``(400,)``."""
    return (0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(FRAME) / (FRAME - 1))) ** 0.85


@lru_cache(maxsize=1)
def mel_bands() -> Floats:
    """Weight of each of the 257 frequencies in each of the 40 bands, ``(40, 257)``; triangles over mel."""
    edges = np.linspace(mel(LOWEST), mel(HIGHEST), CHANNELS + 2)
    left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    at = mel(np.arange(POINTS // 2 + 1) * RATE / POINTS)
    return np.maximum(0.0, np.minimum((at - left) / (centre - left), (right - at) / (right - centre)))


def mel(hertz: Any) -> Any:
    """``1127 ln(1 + f / 700)``."""
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)
