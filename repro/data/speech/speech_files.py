"""Reading a folder of speech as Kaldi lays it out: ``wav.scp`` (utterance, file) and ``text`` (utterance, phonemes)."""

import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from repro.data.speech.filterbanks import RATE, Samples
from repro.errors import UserError


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
