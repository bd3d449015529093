"""The data set of read Wall Street Journal texts: a folder laid out as by Kaldi. Needs no torch.

Each split is a folder with ``wav.scp`` (utterance, file) and ``text`` (utterance, phonemes).
"""

import json
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from repro.data.data_set import OneStore
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import sha256_of
from repro.data.sets.speech.filterbanks import CHANNELS, RATE, SETTINGS, Samples, filterbanks, normalised
from repro.data.store import StoreWriter
from repro.data.table import ColumnType, ids_of
from repro.errors import UserError

PARTS = ("frames", "phonemes")
SPLITS = ("train_si284", "test_dev93", "test_eval92")
BLANK = "<blank>"


class Speech(OneStore):
    """Recordings and their phonemes.

    A row of a store has ``frames``, the filterbanks of :mod:`repro.data.sets.speech.filterbanks` with mean 0 and
    variance 1 in each utterance, as 16-bit floats; and ``phonemes``, ids from 1. The manifest's tokeniser is the table
    of phonemes of the training split; id 0 is CTC's blank.
    """

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        folder, train = options.folder, self.splits[0]
        splits = {split: read_split(folder, split) for split in self.splits}
        symbols = [BLANK, *sorted({phoneme for utterance in splits[train] for phoneme in utterance.phonemes})]
        if len(symbols) > 2**16:
            raise UserError(f"{folder / train}: {len(symbols) - 1:,} different phonemes; are these words?")
        counts, hashes = {}, {}
        for split, utterances in splits.items():
            hashes[split] = sha256_of([json.dumps([u.phonemes for u in utterances]).encode()])
            phonemes = writer.column(split, "phonemes", ids_of(len(symbols)))
            phonemes.add_rows(_ids(utterances, symbols, str(folder / split / "text")))
            frames = writer.column(split, "frames", ColumnType("float16", (CHANNELS,), ragged=True))
            for utterance in utterances:
                features = filterbanks(read_wav(utterance.wav))
                if not len(features):
                    raise UserError(
                        f"{utterance.wav} is shorter than one frame of 25 ms; leave {utterance.name} out"
                    )
                frames.add(normalised(features), [len(features)])
            tokens = {"frames": frames.values, "phonemes": phonemes.values}
            counts[split] = {"examples": len(utterances), "tokens": tokens}
        table = {"kind": "symbols", "size": len(symbols), "symbols": symbols, "filterbanks": dict(SETTINGS)}
        return self.manifest(variant, self.origin(sha256=hashes), counts, table)


def _ids(utterances: "list[Utterance]", symbols: list[str], where: str) -> list[list[int]]:
    """The phonemes of each utterance."""
    ids = {symbol: i for i, symbol in enumerate(symbols) if i}
    for utterance in utterances:
        unknown = [phoneme for phoneme in utterance.phonemes if phoneme not in ids]
        if unknown:
            raise UserError(
                f"{where}: {utterance.name} has the phoneme {unknown[0]!r}, which training never has"
            )
    return [[ids[phoneme] for phoneme in utterance.phonemes] for utterance in utterances]


@dataclass(frozen=True)
class Utterance:
    """One recording and its transcript.

    Attributes:
        name: of the utterance.
        wav: its file.
        phonemes: in order, at least one.
    """

    name: str
    wav: Path
    phonemes: tuple[str, ...]


def read_split(folder: Path, split: str) -> list[Utterance]:
    """The utterances of ``folder/split``, sorted by name.

    Args:
        folder: to which paths in ``wav.scp`` are relative.
        split: name of the folder inside.

    Raises:
        UserError: a file is missing or says something unclear; names file, line and remedy.
    """
    script, text = folder / split / "wav.scp", folder / split / "text"
    wavs, texts = dict(_lines(script)), dict(_lines(text))
    for one_side, other_side, first, second in ((wavs, texts, script, text), (texts, wavs, text, script)):
        alone = sorted(one_side.keys() - other_side.keys())
        if alone:
            raise UserError(f"{first}: {alone[0]} is not in {second}; both must name the same utterances")
    if not wavs:
        raise UserError(f"{script}: no utterances in it")
    return [Utterance(name, _wav(folder, script, name, wavs[name]), _phonemes(text, name, texts[name]))
            for name in sorted(wavs)]  # fmt: skip


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Utterance and the rest of each line."""
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"no {path}; needed: a folder for each split, with wav.scp and text") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    seen: set[str] = set()
    for number, line in enumerate(content.splitlines(), 1):
        name, *rest = line.split(maxsplit=1) or [""]
        if not name or name in seen:
            raise UserError(f"{path}, line {number}: {f'{name} comes twice' if name else 'it is empty'}")
        seen.add(name)
        yield name, "".join(rest).strip()


def _wav(folder: Path, script: Path, name: str, entry: str) -> Path:
    if entry.endswith("|"):
        raise UserError(
            f"{script}: {name} is a command, which nothing here runs; convert the recordings to RIFF files first "
            "(sph2pipe -f wav) and name those"
        )
    path = folder / entry
    if not entry or not path.is_file():
        raise UserError(f"{script}: no file {entry!r} for {name}; paths are absolute or relative to {folder}")
    return path


def _phonemes(text: Path, name: str, entry: str) -> tuple[str, ...]:
    phonemes = tuple(entry.split())
    if not phonemes:
        raise UserError(f"{text}: no phonemes for {name}; leave it out of wav.scp and text")
    return phonemes


def read_wav(path: Path) -> Samples:
    """The samples of a RIFF file, ``(n,)``.

    Raises:
        UserError: it is damaged, or not 16 kHz, 16 bits, one channel.
    """
    try:
        with wave.open(str(path), "rb") as opened:
            audio_format = opened.getframerate(), 8 * opened.getsampwidth(), opened.getnchannels()
            content = opened.readframes(opened.getnframes())
            n_samples = opened.getnframes()
    except (OSError, EOFError, wave.Error) as error:
        raise UserError(f"{path} is not a RIFF file that can be read: {error or 'it is cut off'}") from None
    if audio_format != (RATE, 16, 1):
        rate, bits, channels = audio_format
        raise UserError(
            f"{path} has {rate} Hz, {bits} bits and {channels} channels; needed: {RATE} Hz, 16 bits, 1 channel"
        )
    if len(content) != 2 * n_samples:
        raise UserError(f"{path} is cut off: {len(content) // 2} of {n_samples} samples; convert it again")
    return np.frombuffer(content, "<i2").astype(np.int16)


SPEECH = (
    Speech(
        name="wsj",
        title="Wall Street Journal, read aloud: train_si284, test_dev93, test_eval92 "
        "(Paul and Baker 1992), as phonemes",
        licence="Linguistic Data Consortium, LDC93S6A and LDC94S13A; bring a licensed copy, pass nothing on",
        size="80 hours to train on; 2.4 GB as a store",
        parts=PARTS,
        levels=("fbank40",),
        splits=SPLITS,
        aliases=dict(zip(("train", "val", "test"), SPLITS, strict=True)),
        files=tuple(f"{split}/{name}" for split in SPLITS for name in ("wav.scp", "text")),
    ),
)
