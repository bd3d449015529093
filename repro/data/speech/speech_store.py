"""From recordings and their transcripts to the files of a store. Needs no torch.

A store of speech has two parts: ``frames``, the filterbanks of :mod:`repro.data.speech.filterbanks` with mean 0 and
variance 1 in each utterance, as 16-bit floats, whose offsets count frames; and ``phonemes``, ids from 1. The
manifest's tokeniser is the table of phonemes of the training split; id 0 is CTC's blank.
"""

import json
from typing import Any

import numpy as np

from repro.data.speech.filterbanks import CHANNELS, SETTINGS, filterbanks, normalised
from repro.data.speech.speech_files import Utterance, read_split, read_wav
from repro.data.store.data_set import DataSet
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.store.packed import sha256_of
from repro.data.store.store import Int64s, Store
from repro.data.store.store_writer import StoreWriter
from repro.errors import UserError

BLANK = "<blank>"
FRAME_DTYPE = np.dtype("<f2")


def fill_speech(data_set: DataSet, writer: StoreWriter, variant: str, options: Options) -> Manifest:
    """Reads a folder laid out as by Kaldi, and writes filterbanks and phonemes; see ``DataSet.fill``."""
    folder = options.folder
    splits = {split: read_split(folder, split) for split in data_set.splits}
    train = data_set.splits[0]
    symbols = [BLANK, *sorted({phoneme for utterance in splits[train] for phoneme in utterance.phonemes})]
    if len(symbols) > 2**16:
        raise UserError(f"{folder / train}: {len(symbols) - 1:,} different phonemes; are these words?")
    counts, hashes = {}, {}
    for split, utterances in splits.items():
        hashes[split] = sha256_of([json.dumps([u.phonemes for u in utterances]).encode()])
        ids = _ids(utterances, symbols, str(folder / split / "text"))
        phonemes = writer.write_ids(f"{split}.phonemes", ids)
        frames = _write_frames(writer, f"{split}.frames", utterances)
        counts[split] = {"examples": len(utterances), "tokens": {"frames": frames, "phonemes": phonemes}}
    table = {"kind": "symbols", "size": len(symbols), "symbols": symbols, "filterbanks": dict(SETTINGS)}
    return Manifest.of(data_set, variant, data_set.origin(sha256=hashes), counts, table)


def _ids(utterances: list[Utterance], symbols: list[str], where: str) -> list[list[int]]:
    """The phonemes of each utterance."""
    ids = {symbol: i for i, symbol in enumerate(symbols) if i}
    for utterance in utterances:
        unknown = [phoneme for phoneme in utterance.phonemes if phoneme not in ids]
        if unknown:
            raise UserError(
                f"{where}: {utterance.name} has the phoneme {unknown[0]!r}, which training never has"
            )
    return [[ids[phoneme] for phoneme in utterance.phonemes] for utterance in utterances]


def _write_frames(writer: StoreWriter, part: str, utterances: list[Utterance]) -> int:
    """Writes the filterbanks one utterance after another. Returns how many frames there are."""
    lengths = []
    with writer.stream(frames_file(part)) as opened:
        for utterance in utterances:
            features = filterbanks(read_wav(utterance.wav))
            if not len(features):
                raise UserError(
                    f"{utterance.wav} is shorter than one frame of 25 ms; leave {utterance.name} out"
                )
            opened.write(normalised(features).astype(FRAME_DTYPE).tobytes())
            lengths.append(len(features))
    writer.write_offsets(part, lengths)
    return sum(lengths)


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
    # from each utterance's second phoneme to its last: the first one's neighbour belongs to another utterance
    return np.diff(offsets) + total[offsets[1:] - 1] - total[offsets[:-1]]
