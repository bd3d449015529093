"""Stores of speech from a folder as Kaldi lays it out, and every refusal."""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from repro.data.prepare import open_store, prepare
from repro.data.sets.speech.speech_data import needed_frames
from repro.data.sets.speech.wsj import CHANNELS, filterbanks, normalised, read_wav
from repro.errors import UserError
from tests.data.speech_folder import SPLITS, noise, write_folder, write_wav


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "kaldi")


def quiet(line: str) -> None:
    pass


def test_recordings_become_a_store(data_folder: Path, folder: Path) -> None:
    output: list[str] = []
    assert prepare("wsj", folder, report=output.append) == data_folder / "wsj" / "fbank40"
    assert output == ["made wsj/fbank40: test_dev93 2, test_eval92 1, train_si284 4"]
    store = open_store("wsj", "fbank40")
    symbols = store.manifest.tokenizer["symbols"]
    assert symbols == ["<blank>", "AA", "B", "S"]
    for split, utterances in SPLITS.items():
        ids, offsets = store.values(split, "phonemes"), store.offsets(split, "phonemes")
        result = [" ".join(symbols[i] for i in ids[a:b]) for a, b in pairwise(offsets)]
        assert result == [output for _, (_, output) in sorted(utterances.items())]
        frames, begins = store.values(split, "frames"), store.offsets(split, "frames")
        assert frames.shape == (begins[-1], CHANNELS)
        assert not frames.flags.writeable
        for (name, (count, _)), (a, b) in zip(sorted(utterances.items()), pairwise(begins), strict=True):
            expected = normalised(filterbanks(noise(count, ord(name))))
            assert len(expected) == b - a
            assert np.abs(frames[a:b] - expected).max() < 2e-3, "rounded to 16 bits"
            assert frames[a:b].std() == pytest.approx(1.0, abs=0.01)
    assert store.manifest.counts["train_si284"] == {"examples": 4, "tokens": {"frames": 23, "phonemes": 11}}
    assert store.split("val") == "test_dev93"
    assert "LDC93S6A" in store.manifest.licence


def test_the_manifest_says_how_frames_were_made_and_not_where(data_folder: Path, folder: Path) -> None:
    path = prepare("wsj", folder, report=quiet)
    content = (path / "manifest.json").read_text()
    assert str(folder) not in content
    table = json.loads(content)["tokenizer"]["filterbanks"]
    assert (table["window"], table["lowest"], table["highest"], table["step"]) == ("povey", 20.0, 8000.0, 160)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "wav.scp",
            "e sph2pipe -f wav e.wv1 |\nf audio/f.wav\n",
            "no file .sph2pipe.* for e; .* commands are not run",
        ),
        ("wav.scp", "e audio/none.wav\nf audio/f.wav\n", "no file 'audio/none.wav' for e"),
        ("wav.scp", "e\nf audio/f.wav\n", "no file '' for e"),
        ("wav.scp", "e audio/e.wav\n", "wav.scp and .*text must name the same utterances: f"),
        (
            "wav.scp",
            "e audio/e.wav\nf audio/f.wav\ng audio/g.wav\n",
            "wav.scp and .*text must name the same utterances: g",
        ),
        ("wav.scp", "e audio/e.wav\ne audio/f.wav\n", "wav.scp, line 2: e comes twice"),
        ("wav.scp", "e audio/e.wav\n\nf audio/f.wav\n", "wav.scp, line 2: it is empty"),
        ("text", "e S\nf\n", "text: no phonemes for f"),
        ("text", "e S\nf S XX\n", "text: f has the phoneme 'XX', which training never has"),
        ("text", "e S\nf <blank>\n", "text: f has the phoneme '<blank>'"),
    ],
)
def test_a_bad_list_is_refused(
    data_folder: Path, folder: Path, file: str, content: str, message: str
) -> None:
    (folder / "test_dev93" / file).write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        prepare("wsj", folder, report=quiet)
    assert "\n" not in str(caught.value)
    assert not list(data_folder.rglob("manifest.json"))


def test_empty_lists_are_refused(data_folder: Path, folder: Path) -> None:
    for file in ("wav.scp", "text"):
        (folder / "test_dev93" / file).write_text("")
    with pytest.raises(UserError, match=r"wav.scp .* the same utterances: there are none"):
        prepare("wsj", folder, report=quiet)


def test_a_bad_recording_is_refused(data_folder: Path, folder: Path) -> None:
    path = folder / "audio" / "e.wav"

    def refused(said: str) -> None:
        with pytest.raises(UserError, match=rf"e\.wav.*{said}") as caught:
            prepare("wsj", folder, report=quiet)
        assert "\n" not in str(caught.value)

    for settings, said in (
        ({"rate": 8000}, "8000 Hz, 16 bits and 1 channels; needed: 16000 Hz"),
        ({"channels": 2}, "16000 Hz, 16 bits and 2 channels"),
        ({"width": 1}, "16000 Hz, 8 bits"),
    ):
        write_wav(path, noise(900, 0), **settings)
        refused(said)
    write_wav(path, noise(399, 0))
    refused("shorter than one frame of 25 ms; leave e out")
    write_wav(path, noise(900, 0))
    path.write_bytes(path.read_bytes()[:-200])
    refused("is cut off: 800 of 900 samples")
    for content in (b"", b"NIST_1A\n   1024\n", path.read_bytes()[:20]):
        path.write_bytes(content)
        refused("is not a RIFF file that can be read")


def test_missing_folders_and_files_are_named(data_folder: Path, folder: Path) -> None:
    with pytest.raises(UserError, match=r"\(train_si284/wav.scp.*data.*--from DIR"):
        prepare("wsj", report=quiet)
    with pytest.raises(UserError, match="no such folder"):
        prepare("wsj", folder / "none", report=quiet)
    (folder / "test_eval92" / "text").unlink()
    with pytest.raises(UserError, match=re.escape(str(folder / "test_eval92" / "text"))):
        prepare("wsj", folder, report=quiet)


def test_how_many_frames_a_transcript_needs() -> None:
    rows = [[1], [1, 1], [1, 2, 1], [2, 2, 2, 1, 1], [1], [1]]
    flat = np.array([i for row in rows for i in row])
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    expected = [len(row) + sum(a == b for a, b in pairwise(row)) for row in rows]
    assert needed_frames(flat, offsets).tolist() == expected == [1, 3, 3, 8, 1, 1]


def test_samples_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, noise(500, 3))
    assert np.array_equal(read_wav(path), noise(500, 3))
