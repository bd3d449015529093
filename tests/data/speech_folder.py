"""Tiny recordings, laid out as by Kaldi."""

import wave
from pathlib import Path

import numpy as np

from repro.data.sets.speech.wsj import Samples

# utterance: samples and phonemes, in the order of its lines
SPLITS: dict[str, dict[str, tuple[int, str]]] = {
    "train_si284": {"b": (1300, "AA B AA"), "a": (800, "S"), "c": (2000, "B B S AA"), "d": (720, "S S AA")},
    "test_dev93": {"e": (900, "S AA"), "f": (1100, "B")},
    "test_eval92": {"g": (1000, "AA AA")},
}


def noise(count: int, seed: int) -> Samples:
    """Something to hear."""
    return np.random.default_rng(seed).normal(0, 3000, count).astype(np.int16)


def write_wav(path: Path, samples: Samples, rate: int = 16_000, channels: int = 1, width: int = 2) -> None:
    with wave.open(str(path), "wb") as opened:
        opened.setnchannels(channels)
        opened.setsampwidth(width)
        opened.setframerate(rate)
        opened.writeframes(samples.tobytes())


def write_folder(folder: Path) -> Path:
    """Writes every split; the recordings lie in ``audio``."""
    (folder / "audio").mkdir(parents=True)
    for split, utterances in SPLITS.items():
        (folder / split).mkdir()
        scripts, texts = [], []
        for name, (count, output) in utterances.items():
            write_wav(folder / "audio" / f"{name}.wav", noise(count, ord(name)))
            # one of each split is named by its whole path
            place = f"audio/{name}.wav" if scripts else str(folder / "audio" / f"{name}.wav")
            scripts.append(f"{name} {place}\n")
            texts.append(f"{name}\t{output}\n" if name == "b" else f"{name} {output}\n")
        (folder / split / "wav.scp").write_text("".join(scripts))
        (folder / split / "text").write_text("".join(reversed(texts)))
    return folder
