"""Data sets of recorded speech. Standard library only."""

from typing import TYPE_CHECKING

from repro.data.store.data_set import OneStore
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options

if TYPE_CHECKING:
    from repro.data.store.store_writer import StoreWriter

PARTS = ("frames", "phonemes")
SPLITS = ("train_si284", "test_dev93", "test_eval92")


class Speech(OneStore):
    """Recordings and their phonemes in a folder laid out as by Kaldi."""

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        from repro.data.speech.speech_store import fill_speech

        return fill_speech(self, writer, variant, options)


_WSJ = Speech(
    name="wsj",
    title="Wall Street Journal, read aloud: train_si284, test_dev93, test_eval92 (Paul and Baker 1992), as phonemes",
    licence="Linguistic Data Consortium, LDC93S6A and LDC94S13A; bring a licensed copy, pass nothing on",
    size="80 hours to train on; 2.4 GB as a store",
    parts=PARTS,
    levels=("fbank40",),
    splits=SPLITS,
    aliases=dict(zip(("train", "val", "test"), SPLITS, strict=True)),
    files=tuple(f"{split}/{name}" for split in SPLITS for name in ("wav.scp", "text")),
)
SPEECH = (_WSJ,)
