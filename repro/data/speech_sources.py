"""Known sources of recorded speech. Standard library only."""

from repro.data.source import Source

PARTS = ("frames", "phonemes")
SPLITS = ("train_si284", "test_dev93", "test_eval92")
_WSJ = Source(
    name="wsj",
    title="Wall Street Journal, read aloud: train_si284, test_dev93, test_eval92 (Paul and Baker 1992), as phonemes",
    licence="Linguistic Data Consortium, LDC93S6A and LDC94S13A; bring a licensed copy, pass nothing on",
    size="80 hours to train on; 2.4 GB as a store",
    parts=PARTS,
    splits=SPLITS,
    required=SPLITS,
    aliases={"train": SPLITS[0], "val": SPLITS[1], "test": SPLITS[2]},
    obtained="files",
    kind="speech",
    variant="fbank40",
    files=tuple(f"{split}/{name}" for split in SPLITS for name in ("wav.scp", "text")),
)
SPEECH_SOURCES = (_WSJ,)
