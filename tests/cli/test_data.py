"""data list, prepare, verify."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repro.paths import PROJECT
from tests.workshop import Workshop, call


@pytest.fixture
def empty(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A project without data, in which little is generated."""
    from repro.data.sets.translation import pairs

    monkeypatch.setenv("REPRO_DATA", str(workshop.root / "data"))
    monkeypatch.setattr(pairs, "HELD_OUT_SIZES", {"val": 10, "test": 15})
    return workshop


def test_list_shows_licence_size_and_what_is_prepared(workshop: Workshop) -> None:
    rows = {row["name"]: row for row in call("data", "list", "--json").json()}
    assert rows.keys() >= {"multi30k", "wmt14-en-de", "numbers-en-de"}
    assert rows["numbers-en-de"]["stores"] == ["bpe300-n300"]
    assert rows["multi30k"]["stores"] == []
    assert all(row["licence"] and row["size"] for row in rows.values())
    text = call("data", "list")
    assert text.code == 0
    for name in rows:
        assert name in text.out


def test_prepare_makes_a_store_and_keeps_it(empty: Workshop) -> None:
    words = ("data", "prepare", "numbers-en-de", "--vocab-size", "280", "--size", "200")
    output = call(*words)
    assert output.code == 0, output.err
    folder = empty.root / "data" / "numbers-en-de" / "bpe280-n200"
    assert output.out.strip() == str(folder)
    assert "made numbers-en-de/bpe280-n200" in output.err
    assert (folder / "manifest.json").exists()
    stamp = (folder / "manifest.json").stat().st_mtime_ns
    again = call(*words)
    assert "kept numbers-en-de/bpe280-n200" in again.err
    assert (folder / "manifest.json").stat().st_mtime_ns == stamp
    verified = call("data", "verify", "numbers-en-de")
    assert (verified.code, verified.out) == (0, "bpe280-n200\n")


def test_prepare_refuses_what_does_not_fit_together(empty: Workshop) -> None:
    call("data", "prepare", "numbers-en-de", "--size", "0").refused("--size 0")
    call("data", "prepare", "multi30k", "--size", "5").refused("--size 5")
    call("data", "prepare", "iwslt14-de-en").refused("iwslt14-de-en", "--from DIR")
    call("data", "prepare", "numbers-en-de", "--vocab-size", "100").refused("100")
    call("data", "prepare", "numbers-en-de", "--vocab-size", "many").refused("'many'")
    call("data", "prepare", "numbers-en-de", "--tokenizer", "x.txt").refused("x.txt", ".json")
    assert not list((empty.root / "data").rglob("manifest.json"))
    assert not list((empty.root / "data").rglob(".bpe*")), "no half store"


def test_text_is_prepared_at_a_level(empty: Workshop) -> None:
    files = empty.root / "files"
    files.mkdir()
    for name in ("train", "val", "test"):
        (files / f"{name}.txt").write_text(f"{name} of a book\n" * 3)
    words = ("data", "prepare", "books", "--level", "words-min3", "--from", str(files))
    output = call(*words)
    assert output.code == 0, output.err
    folder = empty.root / "data" / "books" / "words-min3"
    assert output.out.strip() == str(folder)
    assert "made books/words-min3: test 15 tokens (3 unknown), train 15 tokens, val 15 tokens" in output.err
    assert "kept books/words-min3" in call(*words).err
    assert call("data", "verify", "books").out == "words-min3\n"
    rows = {row["name"]: row for row in call("data", "list", "--json").json()}
    assert rows["books"]["stores"] == ["words-min3"]
    assert rows["enwik8"]["levels"] == ["bytes", "bytes-nonl"]
    assert "bytes-nonl" in call("data", "list").out


def test_text_is_refused_in_one_line(empty: Workshop) -> None:
    call("data", "prepare", "ptb", "--level", "letters").refused("--level letters", "words, chars, bytes")
    call("data", "prepare", "multi30k", "--level", "words").refused("--level words")
    call("data", "prepare", "enwik8").refused("repro data prepare enwik8 --level bytes --from DIR")
    call("data", "prepare", "wikitext-2", "--from", str(empty.root)).refused("wiki.train.tokens", "train.txt")
    (empty.root / "ptb.train.txt").write_text("not the treebank\n")
    for split in ("valid", "test"):
        (empty.root / f"ptb.{split}.txt").write_text("no\n")
    call("data", "prepare", "ptb", "--from", str(empty.root)).refused("train: sha256")
    assert not list((empty.root / "data").rglob("manifest.json"))


def test_verify_without_a_store_names_the_command(empty: Workshop) -> None:
    call("data", "verify", "numbers-en-de").refused("repro data prepare numbers-en-de")


def test_a_preparation_that_is_terminated_leaves_no_temporary_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "repro", "data", "prepare", "numbers-en-de", "--vocab-size", "600"]
    environment = os.environ | {"REPRO_DATA": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        while not list(tmp_path.rglob(".*600*")) and process.poll() is None:
            time.sleep(0.05)
        process.terminate()
        assert process.wait() == 130
    assert list(tmp_path.rglob("*600*")) == []
