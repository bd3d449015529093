"""The data set of read Wall Street Journal texts: a folder laid out as by Kaldi, and log mel filterbanks.

Each split is a folder with ``wav.scp`` (utterance, file) and ``text`` (utterance, phonemes). Filterbanks are as the
common recipes for speech have them: frames of 25 ms every 10 ms, of each the mean subtracted, pre-emphasis 0.97, a
Povey window, the power spectrum of 512 points, 40 triangles equally spaced in mel between 20 Hz and 8 kHz, the
logarithm. The samples are 16-bit integers, not divided by 32,768. ``tests/golden/filterbanks.npz`` has the numbers of
two implementations of Kaldi's ``compute-fbank-feats`` with these settings. Needs no torch.

Deviation: no dither, which Kaldi adds by default, so that the same recording always gives the same numbers.
"""

import json
import wave
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from repro.data.data_set import DataSet, Options
from repro.data.packed import TextFile, sha256_of
from repro.data.store import Manifest, StoreWriter
from repro.data.table import ColumnType, ids_of
from repro.errors import UserError

PARTS = ("frames", "phonemes")
BLANK = "<blank>"
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


class Speech(DataSet):
    """Recordings and their phonemes.

    A row of a store has ``frames``, the filterbanks with mean 0 and variance 1 in each utterance, as 16-bit floats; and
    ``phonemes``, ids from 1. The manifest's tokeniser is the table of phonemes of the training split; id 0 is CTC's
    blank.
    """

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        splits = {split: read_split(options.folder, split) for split in self.splits}
        used = {phoneme for _, phonemes in splits[self.splits[0]].values() for phoneme in phonemes}
        symbols = [BLANK, *sorted(used)]
        ids = {symbol: i for i, symbol in enumerate(symbols) if i}
        counts, hashes = {}, {}
        for split, utterances in splits.items():
            transcripts = [phonemes for _, phonemes in utterances.values()]
            hashes[split] = sha256_of([json.dumps(transcripts).encode()])
            phoneme_column = writer.column(split, "phonemes", ids_of(len(symbols)))
            frames = writer.column(split, "frames", ColumnType("float16", (CHANNELS,), ragged=True))
            for name, (path, phonemes) in utterances.items():
                if unknown := [phoneme for phoneme in phonemes if phoneme not in ids]:
                    path_of_text = options.folder / split / "text"
                    raise UserError(
                        f"{path_of_text}: {name} has the phoneme {unknown[0]!r}, which training never has"
                    )
                phoneme_column.add_rows([[ids[phoneme] for phoneme in phonemes]])
                features = filterbanks(read_wav(path))
                if not len(features):
                    raise UserError(f"{path} is shorter than one frame of 25 ms; leave {name} out")
                frames.add(normalised(features), [len(features)])
            tokens = {"frames": frames.values, "phonemes": phoneme_column.values}
            counts[split] = {"examples": len(utterances), "tokens": tokens}
        table = {"kind": "symbols", "size": len(symbols), "symbols": symbols, "filterbanks": dict(SETTINGS)}
        return self.manifest(variant, self.origin(sha256=hashes), counts, table)


def read_split(folder: Path, split: str) -> dict[str, tuple[Path, list[str]]]:
    """File and phonemes of each utterance of ``folder/split``, by name, sorted.

    Args:
        folder: to which paths in ``wav.scp`` are relative.
        split: name of the folder inside.

    Raises:
        UserError: a file is missing or malformed; names file, line and remedy.
    """
    script, text = folder / split / "wav.scp", folder / split / "text"
    wavs, texts = _table(script), _table(text)
    if wavs.keys() != texts.keys() or not wavs:
        differing = ", ".join(sorted(wavs.keys() ^ texts.keys())[:3]) or "there are none"
        raise UserError(f"{script} and {text} must name the same utterances: {differing}")
    utterances = {}
    for name in sorted(wavs):
        path, phonemes = folder / wavs[name], texts[name].split()
        if not path.is_file():
            raise UserError(
                f"{script}: no file {wavs[name]!r} for {name}; paths are absolute or relative to {folder}, and "
                "commands are not run: convert recordings to RIFF files first (sph2pipe -f wav)"
            )
        if not phonemes:
            raise UserError(f"{text}: no phonemes for {name}; leave it out of wav.scp and text")
        utterances[name] = path, phonemes
    return utterances


def _table(path: Path) -> dict[str, str]:
    """Utterance and the rest of each line."""
    table: dict[str, str] = {}
    for number, line in enumerate(TextFile(path), 1):
        name, *rest = line.split(maxsplit=1) or [""]
        if not name or name in table:
            raise UserError(f"{path}, line {number}: {f'{name} comes twice' if name else 'it is empty'}")
        table[name] = "".join(rest).strip()
    return table


def read_wav(path: Path) -> Samples:
    """The samples of a RIFF file, ``(n,)``.

    Raises:
        UserError: it is damaged, or not 16 kHz, 16 bits, one channel.
    """
    try:
        with wave.open(str(path), "rb") as opened:
            found, content = opened.getparams(), opened.readframes(opened.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise UserError(f"{path} is not a RIFF file that can be read: {error or 'it is cut off'}") from None
    if (found.framerate, found.sampwidth, found.nchannels) != (RATE, 2, 1):
        raise UserError(
            f"{path} has {found.framerate} Hz, {8 * found.sampwidth} bits and {found.nchannels} channels; "
            f"needed: {RATE} Hz, 16 bits, 1 channel"
        )
    if len(content) != 2 * found.nframes:
        raise UserError(
            f"{path} is cut off: {len(content) // 2} of {found.nframes} samples; convert it again"
        )
    return np.frombuffer(content, "<i2").astype(np.int16)


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
    mels = mel(np.arange(POINTS // 2 + 1) * RATE / POINTS)
    return np.maximum(0.0, np.minimum((mels - left) / (centre - left), (right - mels) / (right - centre)))


def mel(hertz: float | Floats) -> np.float64 | Floats:
    """``1127 ln(1 + f / 700)``."""
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)
