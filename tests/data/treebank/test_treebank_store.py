"""Stores of a licensed treebank's sections, of trees a line, of generated ones; and every refusal."""

import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from repro.data.prepare import ensure_generated, open_store, prepare, verify
from repro.data.store import Store
from repro.data.tokenizers.loading import load_tokenizer
from repro.data.tokenizers.parse_symbols import WordsAndSymbols
from repro.data.tokenizers.tokenizer import ByteBpe
from repro.errors import UserError
from tests.data.treebank_folder import BRACKETS, STRIPPED, noun, write_lines, write_sections

SIZE = 300


@pytest.fixture(scope="module")
def sections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Do not change it."""
    return write_sections(tmp_path_factory.mktemp("treebank"))


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "lines")


def made(name: str, folder: Path | None, size: int | None = None) -> Store:
    """A store, with what is said left out."""
    path = prepare(name, folder, vocab_size=SIZE, size=size, report=lambda line: None)
    return open_store(name, path.name)


def decoded(store: Store, split: str, part: str) -> list[str]:
    tokenizer = load_tokenizer(store.tokenizer_path)
    ids, offsets = store.values(split, part), store.offsets(split, part)
    return [tokenizer.decode(ids[a:b].tolist()) for a, b in pairwise(offsets)]


def test_sections_become_a_store(data_folder: Path, sections: Path) -> None:
    output: list[str] = []
    assert (
        prepare("wsj-trees", sections, vocab_size=SIZE, report=output.append)
        == data_folder / "wsj-trees" / "bpe300"
    )
    assert output == ["made wsj-trees/bpe300: test 2, train 40, val 2"]
    store = open_store("wsj-trees", "bpe300")
    assert store.lines("train", "words")[0] == f"The {noun(2)} was seen again in the park ."
    assert {line.split()[1] for line in store.lines("train", "words")[::2]} == {noun(n) for n in range(2, 22)}
    assert store.lines("val", "words")[0] == f"The {noun(22)} was seen again in the park ."
    assert store.lines("test", "trees")[0] == STRIPPED.format(noun=noun(23))
    assert store.lines("test", "brackets")[0] == BRACKETS
    for split in ("train", "val", "test"):
        for part in ("words", "brackets"):
            assert decoded(store, split, part) == store.lines(split, part)
    counts = store.manifest.counts["val"]
    assert counts == {"examples": 2, "tokens": {"words": counts["tokens"]["words"], "brackets": 23 + 11}}


def test_the_manifest_says_what_was_read_and_not_where(data_folder: Path, sections: Path) -> None:
    store = made("wsj-trees", sections)
    content = (store.path / "manifest.json").read_text()
    assert str(sections) not in content
    messages = store.manifest.source
    assert len(messages["files"]) == 2 * 22
    assert messages["files"]["23/wsj_2302.mrg"]["lines"] == 1
    assert messages["without_words"] == {"train": 1, "val": 0, "test": 0}
    assert messages["deviations"][1] == "val has 2 sentences, the treebank's sections 1,700"
    assert store.manifest.tokenizer["kind"] == "words-and-symbols"
    assert "LDC99T42" in store.manifest.licence


@pytest.mark.parametrize("inner", ["", "wsj", "parsed/mrg/wsj", "treebank_3/parsed/mrg/wsj"])
def test_sections_are_found_where_releases_have_them(data_folder: Path, sections: Path, inner: str) -> None:
    here = data_folder.parent / "given"
    (here / inner).parent.mkdir(parents=True, exist_ok=True)
    (here / inner).symlink_to(sections / "wsj", target_is_directory=True)
    assert made("wsj-trees", here).manifest.counts["train"]["examples"] == 40


def test_trees_a_line_become_the_same_store(data_folder: Path, lines: Path) -> None:
    packed = lines / "train.trees"
    (lines / "train.trees.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    store = made("wsj-trees", lines)
    assert store.lines("val", "trees") == [STRIPPED.format(noun="dog")]
    assert store.lines("test", "trees") == store.lines("val", "trees"), "with and without a root"
    assert store.manifest.counts["train"]["examples"] == 40
    assert store.manifest.source["files"].keys() == {"train.trees", "val.trees", "test.trees"}
    with pytest.raises(UserError, match="keeps tokens only"):
        store.lines("train", "trees")


def test_trees_of_other_parsers_are_trained_on_as_well(data_folder: Path, tmp_path: Path) -> None:
    folder = write_sections(tmp_path / "more")
    with pytest.raises(UserError, match=r"no extra\*\.trees"):
        made("wsj-trees-semi", folder)
    (folder / "extra-b.trees").write_text("(S (NP (NN zebra)))\n" * 3)
    (folder / "extra-a.trees.gz").write_bytes(gzip.compress(b"(TOP (WHNP (NN yak)))\n"))
    store = made("wsj-trees-semi", folder)
    assert store.lines("train", "words")[40:] == ["yak", "zebra", "zebra", "zebra"]
    assert store.manifest.counts["val"]["examples"] == 2
    assert [text.split()[0] for text in store.manifest.source["deviations"]] == ["val", "test"]
    tokenizer = load_tokenizer(store.tokenizer_path)
    assert isinstance(tokenizer, WordsAndSymbols)
    assert "(WHNP" in tokenizer.symbols
    # without the other source's rule they are none of its business
    assert made("wsj-trees", folder).manifest.counts["train"]["examples"] == 40


def test_generated_trees_are_made_at_any_size(data_folder: Path) -> None:
    assert ensure_generated("grammar-trees", "bpe300-n250")
    store = open_store("grammar-trees", "bpe300-n250")
    assert {split: messages["examples"] for split, messages in store.manifest.counts.items()} == {
        "train": 250,
        "val": 100,
        "test": 200,
    }
    assert store.manifest.source["deviations"] == []
    assert verify("grammar-trees") == ["bpe300-n250"]
    assert decoded(store, "test", "words") == store.lines("test", "words")


# --- refusals -----------------------------------------------------------------------------------------------------


def refused(name: str, folder: Path | None, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        made(name, folder)
    assert "\n" not in str(caught.value)


def test_files_are_needed(data_folder: Path, tmp_path: Path) -> None:
    refused("wsj-trees", None, r"get its files \(sections 02 to 23 of \.mrg files")
    refused("wsj-trees", tmp_path / "none", "no such folder")
    refused("wsj-trees", tmp_path, "neither train.trees, val.trees and test.trees nor sections 02 to 23")


def test_a_missing_section_is_named(data_folder: Path, tmp_path: Path) -> None:
    folder = write_sections(tmp_path / "bank")
    section = folder / "wsj" / "07"
    for path in sorted(section.glob("*.mrg")):
        path.unlink()
    refused("wsj-trees", folder, r"no \.mrg files in section .*wsj/07")
    (section / "README").unlink()
    section.rmdir()
    refused("wsj-trees", folder, r"no \.mrg files in section .*wsj/07")
    assert not (data_folder / "wsj-trees" / "bpe300").exists()


def test_a_missing_file_of_trees_is_named(data_folder: Path, lines: Path) -> None:
    (lines / "val.trees").unlink()
    refused("wsj-trees", lines, r"no val\.trees, .* with the other splits' trees")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"( (S (NN a)) )\n( (S (NN b))\n( (S (NN c)) )\n",
            "line 2: the tree that begins here is never closed",
        ),
        (b"\n\n( (S (NN caf\xe9)) )\n", "line 3 is not UTF-8"),
        (b"( (S ) )\n", r"line 1: \(S \.\.\.\) has nothing in it"),
    ],
)
def test_a_damaged_section_is_named_with_its_line(
    data_folder: Path, tmp_path: Path, content: bytes, message: str
) -> None:
    folder = write_sections(tmp_path / "bank")
    (folder / "wsj" / "10" / "wsj_1001.mrg").write_bytes(content)
    refused("wsj-trees", folder, f"10/wsj_1001.mrg,? {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"(S (NN a))\n(S (NP\n(NN b)))\n", "line 2: the tree that begins here is never closed"),
        (b"(S (NN a))\nHello\n", "line 2: 'Hello' is outside of any tree"),
    ],
)
def test_a_damaged_line_is_named(data_folder: Path, lines: Path, content: bytes, message: str) -> None:
    (lines / "val.trees").write_bytes(content)
    refused("wsj-trees", lines, f"val.trees,? {message}")


@pytest.mark.parametrize("content", ["", "( (S (-NONE- *)) )\n"])
def test_a_split_without_sentences(data_folder: Path, lines: Path, content: str) -> None:
    (lines / "test.trees").write_text(content)
    refused("wsj-trees", lines, "test has no sentence in it")


def test_a_tokenizer_without_symbols_is_refused(data_folder: Path, lines: Path, tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    ByteBpe.train(["the dog", "the dog"], 262).save(path)
    with pytest.raises(UserError, match=r"wsj-trees.*--tokenizer"):
        prepare("wsj-trees", lines, tokenizer=path, report=lambda line: None)
