"""From recordings and what is said in them to the files of a store. Needs no torch.

A store of speech has two parts: ``frames``, the filterbanks of :mod:`repro.data.filterbanks` with mean 0 and variance 1
in each utterance, as 16-bit floats, whose offsets count frames; and ``phonemes``, ids from 1. The manifest's tokeniser
is the table of phonemes of the training split; id 0 is CTC's blank.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from repro.data.filterbanks import CHANNELS, SETTINGS, filterbanks, normalised
from repro.data.manifest import Manifest
from repro.data.source import Source
from repro.data.speech_files import Utterance, read_split, read_wav
from repro.data.store import Int64s, Store, StoreWriter
from repro.errors import UserError

BLANK = "<blank>"
FRAME_DTYPE = np.dtype("<f2")


def fill_speech(source: Source, variant: str, from_dir: Path | None, writer: StoreWriter) -> Manifest:
    """Reads a folder laid out as by Kaldi, and writes filterbanks and phonemes.

    Args:
        source: of speech.
        variant: name of the store.
        from_dir: folder with a folder for each split.
        writer: of the store.

    Raises:
        UserError: a file is missing or damaged, or holds something else; names it and what is wrong.
    """
    assert from_dir is not None  # there is no other way, and `prepare` says so
    folder = Path(from_dir)
    if not folder.is_dir():
        raise UserError(f"--from {folder}: no such folder")
    splits = {split: read_split(folder, split) for split in source.splits}
    symbols = [BLANK, *sorted({phoneme for one in splits[source.splits[0]] for phoneme in one.phonemes})]
    if len(symbols) > 2**16:
        raise UserError(
            f"{folder / source.splits[0]}: {len(symbols) - 1:,} different phonemes; are these words?"
        )
    counts, hashes = {}, {}
    for split, utterances in splits.items():
        where = str(folder / split / "text")
        hashes[split] = hashlib.sha256(json.dumps([u.phonemes for u in utterances]).encode()).hexdigest()
        phonemes = _write_phonemes(writer, f"{split}.phonemes", utterances, symbols, where)
        frames = _write_frames(writer, f"{split}.frames", utterances)
        counts[split] = {"examples": len(utterances), "tokens": {"frames": frames, "phonemes": phonemes}}
    return Manifest.of(
        source,
        variant,
        {"kind": "files", "id": source.hub_id, "revision": source.revision, "sha256": hashes},
        counts,
        {
            "kind": "symbols",
            "size": len(symbols),
            "symbols": symbols,
            "filterbanks": dict(SETTINGS),
        },
    )


def _write_phonemes(
    writer: StoreWriter, part: str, utterances: list[Utterance], symbols: list[str], where: str
) -> int:
    """Writes ids and where each utterance begins. Returns how many ids there are."""
    ids = {symbol: i for i, symbol in enumerate(symbols) if i}
    for one in utterances:
        unknown = [phoneme for phoneme in one.phonemes if phoneme not in ids]
        if unknown:
            raise UserError(f"{where}: {one.name} has the phoneme {unknown[0]!r}, which training never has")
    flat = [ids[phoneme] for one in utterances for phoneme in one.phonemes]
    writer.write(f"{part}.tokens.bin", np.array(flat, "<u2").tobytes())
    _write_offsets(writer, part, [len(one.phonemes) for one in utterances])
    return len(flat)


def _write_frames(writer: StoreWriter, part: str, utterances: list[Utterance]) -> int:
    """Writes the filterbanks one utterance after another. Returns how many frames there are."""
    lengths = []
    with writer.stream(frames_file(part)) as opened:
        for one in utterances:
            features = filterbanks(read_wav(one.wav))
            if not len(features):
                raise UserError(f"{one.wav} is shorter than one frame of 25 ms; leave {one.name} out")
            opened.write(normalised(features).astype(FRAME_DTYPE).tobytes())
            lengths.append(len(features))
    _write_offsets(writer, part, lengths)
    return sum(lengths)


def _write_offsets(writer: StoreWriter, part: str, lengths: list[int]) -> None:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    writer.write(f"{part}.offsets.bin", offsets.astype("<i8").tobytes())


def frames_file(part: str) -> str:
    return f"{part}.f16"


def frames_of(store: Store, split: str) -> np.ndarray[Any, np.dtype[np.float16]]:
    """All frames of a split, ``(N, 40)``, memory-mapped."""
    path = store.path / frames_file(store.part(split, "frames"))
    return np.memmap(path, FRAME_DTYPE, mode="r").reshape(-1, CHANNELS)


def needed_frames(phonemes: np.ndarray[Any, Any], offsets: Int64s) -> Int64s:
    """Frames that CTC needs at least for each utterance, ``(N,)``: one a phoneme, and a blank between equal ones."""
    same = np.zeros(len(phonemes), np.int64)
    same[1:] = phonemes[1:] == phonemes[:-1]
    total = np.cumsum(same)
    # up to each utterance's last phoneme, from behind its first one, whose neighbour is another utterance's
    return np.diff(offsets) + total[offsets[1:] - 1] - total[offsets[:-1]]
