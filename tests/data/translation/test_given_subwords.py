"""Sentence pairs that are published cut into subwords."""

from pathlib import Path

import pytest

from repro.data import TranslationData
from repro.data import prepare as actions
from repro.data.prepare import open_store
from repro.data.registry import DATA_SETS
from repro.data.sets.translation.given_subwords import GIVEN, GivenSubwords
from repro.errors import UserError

NAME = "small-pairs"
MERGES = "#version: 0.2\nl o\nlo w</w>\n"
LINES = {"en": ["low lo@@ l", "l@@ l low"], "de": ["low low", "lo@@ l x"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of a small data set, which is registered."""
    known = GivenSubwords(
        name=NAME, title="t", licence="l", size="s", parts=("en", "de"), splits=("train", "valid", "test"),
        optional=("test",), aliases={"val": "valid"}, merges=("en-de.codes", "code"),
        names={split: ((f"en-de.{split}.{{part}}", f"{split}.{{part}}"),) for split in ("train", "valid", "test")},
    )  # fmt: skip
    monkeypatch.setitem(DATA_SETS, NAME, known)
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "data"))
    files = tmp_path / "files"
    files.mkdir()
    for split in ("train", "valid"):
        for part, lines in LINES.items():
            (files / f"{split}.{part}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (files / "code").write_text(MERGES, encoding="utf-8")
    return files


def test_lines_are_words_and_tokens_the_given_subwords(folder: Path) -> None:
    actions.prepare(NAME, from_dir=folder, report=lambda line: None)
    store = open_store(NAME, GIVEN)
    assert store.lines("train", "en") == ["low lol", "ll low"]
    assert store.manifest.missing_splits == ["test"]
    data = TranslationData(f"{NAME}/given", 16, [40, 40], val_split="valid", test_split="val")
    (batch,) = data.train_dataloader()
    tokenizer = data.tokenizer
    for row, i in enumerate(batch.indices.tolist()):
        source = batch.source[row, : batch.source_lengths[row] - 1].tolist()
        assert [tokenizer.subwords[n - 4] for n in source] == LINES["en"][i].split()
    assert data.references("valid") == ["low low", "lol x"]


def test_names_with_the_pair_in_front_go_first(folder: Path) -> None:
    for part in LINES:
        (folder / f"en-de.train.{part}").write_text("low low\nlow\n", encoding="utf-8")
    actions.prepare(NAME, from_dir=folder, report=lambda line: None)
    assert open_store(NAME, GIVEN).lines("train", "en") == ["low low", "low"]


@pytest.mark.parametrize("name", ["code", "train.de", "valid.en"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(UserError, match=name):
        actions.prepare(NAME, from_dir=folder, report=lambda line: None)


def test_its_own_subwords_are_the_only_ones(folder: Path) -> None:
    with pytest.raises(UserError, match="--vocab-size 100"):
        actions.prepare(NAME, from_dir=folder, vocab_size=100, report=lambda line: None)
    with pytest.raises(UserError, match="bpe100"):
        _ = TranslationData(NAME, 100, 40).store
