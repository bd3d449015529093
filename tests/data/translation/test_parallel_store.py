"""A large parallel corpus becomes a store: in blocks, cleaned and counted, whole or not at all."""

import json
import tracemalloc
from pathlib import Path

import pytest

from repro.data import table
from repro.data.packed import sha256_of
from repro.data.prepare import open_store, prepare, verify
from repro.data.sets.translation.pairs import SentencePairs
from repro.data.tokenizers.loading import load_tokenizer
from repro.data.tokenizers.tokenizer import ByteBpe
from repro.errors import UserError
from tests.data.parallel_folder import CORPORA, HELD, small_wmt, text, write_iwslt, write_wmt

VOCAB = 280


@pytest.fixture
def wmt(monkeypatch: pytest.MonkeyPatch) -> SentencePairs:
    return small_wmt(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_wmt(tmp_path / "files")


def quiet(line: str) -> None:
    pass


def test_a_folder_becomes_a_store(data_folder: Path, wmt: SentencePairs, folder: Path) -> None:
    output: list[str] = []
    path = prepare("wmt14-en-de", folder, vocab_size=VOCAB, report=output.append)
    store = open_store("wmt14-en-de", path.name)
    houses = CORPORA["training/europarl-v7.de-en"]
    long = " ".join(["word"] * 256)
    assert store.lines("train", "en") == [*(en for en, _ in houses), "odd line", long]
    assert store.lines("train", "de")[30] == "schr\u00e4ge Zeile"
    for name, lines in HELD.items():  # never cleaned
        split, part = name.split(".")
        assert store.lines(split, part) == lines
        assert store.manifest.columns[split][f"{part}_text"]["sha256"] == sha256_of([text(lines)])
    assert store.lines("val", "en") == HELD["newstest2013.en"]
    assert store.lines("test", "de") == HELD["newstest2014.de"]
    tokenizer = load_tokenizer(store.tokenizer_path)
    for split in store.splits:
        for part in ("en", "de"):
            lines, tokens, offsets = (get(split, part) for get in (store.lines, store.values, store.offsets))
            counts = store.manifest.counts[split]
            assert (counts["examples"], counts["tokens"][part]) == (len(lines), len(tokens))
            assert len(offsets) == len(lines) + 1
            for i, line in enumerate(lines):
                assert tokenizer.decode(tokens[offsets[i] : offsets[i + 1]].tolist()) == line
    assert verify("wmt14-en-de") == [f"bpe{VOCAB}"]
    assert output[1] == "kept 32 of 35 training pairs (dropped: 2 empty, 1 long, 0 ratio)"


def test_the_manifest_tells_what_was_read_and_dropped(
    data_folder: Path, wmt: SentencePairs, folder: Path
) -> None:
    path = prepare("wmt14-en-de", folder, vocab_size=VOCAB, report=quiet)
    messages = open_store("wmt14-en-de", path.name).manifest.source
    assert messages["kind"] == "files"
    assert messages["files"]["europarl-v7.de-en.en"]["lines"] == 30
    assert messages["cleaning"] == {
        "read": 35, "kept": 32, "dropped": {"empty": 2, "long": 1, "ratio": 0}, "squeezed": 2,
        "rules": {"max_words": 256, "ratio": 0.0, "lower_case": False},
    }  # fmt: skip
    assert messages["deviations"] == ["byte-level BPE on raw text, without Moses' tokeniser"]
    assert str(folder) not in json.dumps(messages)


@pytest.mark.parametrize("block", [1, 7, 31, 32])
def test_nothing_depends_on_the_size_of_a_block(
    data_folder: Path, wmt: SentencePairs, folder: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    whole = prepare("wmt14-en-de", folder, vocab_size=VOCAB, report=quiet)
    monkeypatch.setenv("REPRO_DATA", str(data_folder / "again"))
    monkeypatch.setattr(table, "BLOCK", block)
    again = prepare("wmt14-en-de", folder, vocab_size=VOCAB, report=quiet)
    assert (again / "manifest.json").read_bytes() == (whole / "manifest.json").read_bytes()


def test_talks_are_lower_cased_and_every_23rd_pair_is_for_validation(
    data_folder: Path, tmp_path: Path
) -> None:
    write_iwslt(tmp_path / "files", pairs=50)
    path = prepare("iwslt14-de-en", tmp_path / "files", vocab_size=265, report=quiet)
    store = open_store("iwslt14-de-en", path.name)
    everything = ["a title number", "ted: number told", *(f"number {n} is the one ." for n in range(48))]
    assert store.lines("val", "en") == everything[22::23]
    assert store.lines("val", "de") == ["nummer 20 is the one .", "nummer 43 is the one ."]
    assert store.lines("train", "en") == [line for i, line in enumerate(everything, 1) if i % 23]
    assert store.lines("test", "en")[:2] == ["ted.dev2010 number", "it's fine"]
    messages = store.manifest.source["cleaning"]
    assert (messages["held_every"], messages["held"], messages["kept"]) == (23, 2, 50)
    assert len(store.manifest.source["deviations"]) == 2


def test_ready_talks_have_their_own_validation(data_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for part in ("de", "en"):
        for split, n in (("train", 40), ("valid", 3), ("test", 2)):
            (folder / f"{split}.{part}").write_text("A line of it\n" * n)
    store = open_store("iwslt14-de-en", prepare("iwslt14-de-en", folder, vocab_size=262, report=quiet).name)
    assert {split: counts["examples"] for split, counts in store.manifest.counts.items()} == {
        "train": 40, "val": 3, "test": 2,
    }  # fmt: skip
    assert store.lines("val", "en") == ["a line of it"] * 3
    assert "held_every" not in store.manifest.source["cleaning"]


def test_a_share_of_the_pairs_may_teach_the_vocabulary(
    data_folder: Path, wmt: SentencePairs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from repro.data import registry

    few = dataclasses.replace(wmt, vocabulary_every=3)
    monkeypatch.setitem(registry.DATA_SETS, "wmt14-en-de", few)
    store = open_store("wmt14-en-de", prepare("wmt14-en-de", folder, vocab_size=270, report=quiet).name)
    expected = ByteBpe.train(store.lines("train", "en")[::3] + store.lines("train", "de")[::3], 270)
    assert store.manifest.tokenizer["sha256"] == expected.sha256


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b"", "too little is left to train on: kept 0 of 0 training pairs"),
        (
            b"\n \n\xc2\xa0\n",
            r"too little is left to train on: kept 0 of 3 training pairs \(dropped: 3 empty",
        ),
        (b"one\nb\xff\n", r"train\.en, line 2 is not UTF-8"),
    ],
)
def test_a_refusal_leaves_nothing_behind(
    data_folder: Path, wmt: SentencePairs, folder: Path, written: bytes, message: str
) -> None:
    for part in ("en", "de"):
        (folder / f"train.{part}").write_bytes(written)
    with pytest.raises(UserError, match=message) as caught:
        prepare("wmt14-en-de", folder, vocab_size=VOCAB, report=quiet)
    assert "\n" not in str(caught.value)
    assert not (data_folder / "wmt14-en-de").exists()


def peak_of(folder: Path, pairs: int, tokenizer: Path) -> int:
    """Bytes that Python holds at most while so many pairs are prepared with a given tokeniser."""
    for part in ("en", "de"):
        (folder / f"train.{part}").write_text("".join(f"pair {n} of many\n" for n in range(pairs)))
    tracemalloc.start()
    try:
        prepare("wmt14-en-de", folder, tokenizer=tokenizer, report=quiet)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_corpus(
    data_folder: Path, wmt: SentencePairs, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "BLOCK", 100)
    ByteBpe.train(["pair of many"] * 9, 262).save(tmp_path / "mine.json")
    peak_of(folder, 10, tmp_path / "mine.json")  # what is imported and kept once
    peaks = []
    for pairs in (400, 3000):
        monkeypatch.setenv("REPRO_DATA", str(tmp_path / f"of{pairs}"))
        peaks.append(peak_of(folder, pairs, tmp_path / "mine.json"))
    assert peaks[1] < 1.3 * peaks[0]
