"""Text into stores: levels as the official codes build them, what is unknown, every form in which people have files."""

import dataclasses
import gzip
import hashlib
import lzma
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from repro.data import registry
from repro.data.prepare import ensure_generated, open_store, prepare, verify
from repro.data.registry import DATA_SETS
from repro.data.sets.text import text_sets
from repro.data.tokenizers.loading import AnyTokenizer, load_tokenizer
from repro.data.tokenizers.tokenizer import ByteBpe
from repro.errors import UserError

WIKI = {
    "train": " \n = A title = \n \n the cat saw the <unk> cat \n a bee saw \n",
    "val": " \n the dog saw \n",
    "test": " a cat",  # no line break at the end
}
FILES = {"train": "wiki.train.tokens", "val": "wiki.valid.tokens", "test": "wiki.test.tokens"}


def quiet(line: str) -> None:
    pass


def replace(monkeypatch: pytest.MonkeyPatch, name: str, **known: Any) -> None:
    """Gives a data set other hashes, or another cut."""
    monkeypatch.setitem(registry.DATA_SETS, name, dataclasses.replace(DATA_SETS[name], **known))


@pytest.fixture
def wiki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """WikiText-2 with other content, one file plain, one gzipped, one xz."""
    hashes = {f"{split}.text": hashlib.sha256(text.encode()).hexdigest() for split, text in WIKI.items()}
    replace(monkeypatch, "wikitext-2", sha256=hashes)
    folder = tmp_path / "files" / "wikitext-2"
    folder.mkdir(parents=True)
    (folder / FILES["train"]).write_text(WIKI["train"])
    (folder / f"{FILES['val']}.gz").write_bytes(gzip.compress(WIKI["val"].encode()))
    (folder / f"{FILES['test']}.xz").write_bytes(lzma.compress(WIKI["test"].encode()))
    return folder


def tokens(name: str, split: str = "train") -> list[int]:
    result: list[int] = open_store(*name.split("/")).values(split, "text").tolist()
    return result


def tokenizer(name: str) -> AnyTokenizer:
    return load_tokenizer(open_store(*name.split("/")).tokenizer_path)


def symbols(name: str) -> list[Any]:
    result = tokenizer(name)
    assert not isinstance(result, ByteBpe)
    return result.symbols  # type: ignore[union-attr,no-any-return]


def read(name: str, split: str) -> list[Any]:
    """The tokens of a split as symbols."""
    of = symbols(name)
    return [of[i] for i in tokens(name, split)]


def test_words_as_the_official_code_counts_them(data_folder: Path, wiki: Path) -> None:
    output: list[str] = []
    prepare("wikitext-2", wiki, report=output.append)
    store = "wikitext-2/words"
    # the line end first, then by falling frequency, ties in the order of their first occurrence
    assert symbols(store) == ["<eos>", "=", "the", "cat", "saw", "A", "title", "<unk>", "a", "bee"]
    lines = [
        [],
        ["=", "A", "title", "="],
        [],
        ["the", "cat", "saw", "the", "<unk>", "cat"],
        ["a", "bee", "saw"],
    ]
    assert read(store, "train") == [word for line in lines for word in (*line, "<eos>")]
    assert read(store, "val") == ["<eos>", "the", "<unk>", "saw", "<eos>"]
    assert read(store, "test") == ["a", "cat", "<eos>"]
    manifest = open_store("wikitext-2", "words").manifest
    assert manifest.counts["train"] == {"examples": 5, "tokens": {"text": 18}, "unknown": 0}
    assert manifest.counts["val"]["unknown"] == 1
    assert manifest.counts["test"]["examples"] == 1
    assert manifest.source["raw_text"] == "not kept"
    assert manifest.source["sha256"]["val"] == hashlib.sha256(WIKI["val"].encode()).hexdigest()
    assert output == ["made wikitext-2/words: test 3 tokens, train 18 tokens, val 5 tokens (1 unknown)"]
    assert {p.name for p in (data_folder / store).iterdir()} == {
        "manifest.json", "tokenizer.json", "train", "val", "test",
    }  # fmt: skip
    assert verify("wikitext-2") == ["words"]
    with pytest.raises(UserError, match="wikitext-2/words"):
        open_store("wikitext-2", "words").lines("val", "text")


def test_an_unknown_word_without_a_symbol_for_it_is_named(
    data_folder: Path, wiki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(monkeypatch, "wikitext-2", sha256={})
    (wiki / FILES["train"]).write_text(WIKI["train"].replace("<unk>", "cat"))
    monkeypatch.setattr(text_sets, "PIECE_BYTES", 1)  # the line is counted over pieces
    with pytest.raises(UserError, match=r"val: 'dog' is not in .*train"):
        prepare("wikitext-2", wiki, report=quiet)
    assert not list(data_folder.glob("*/*"))


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("level", ["words", "bytes"])
def test_small_pieces_make_the_same_store(
    data_folder: Path, wiki: Path, monkeypatch: pytest.MonkeyPatch, level: str, size: int
) -> None:
    prepare("wikitext-2", wiki, level=level, report=quiet)
    whole = open_store("wikitext-2", level).manifest
    monkeypatch.setattr(text_sets, "PIECE_BYTES", size)
    monkeypatch.setenv("REPRO_DATA", str(data_folder / "other"))
    prepare("wikitext-2", wiki, level=level, report=quiet)
    assert open_store("wikitext-2", level).manifest == whole


TITLES = (
    " \n = First = \n \n one = two = \n = three = \n \n = = Section = = \n \n four \n \n = Second = \n \n five \n \n"
    " = X = 3 = \n \n six \n \n the dog saw a cat \n"
)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("level", ["words", "bytes"])
def test_an_article_begins_at_a_title_between_empty_lines(
    data_folder: Path, wiki: Path, monkeypatch: pytest.MonkeyPatch, level: str, size: int, end: str
) -> None:
    replace(monkeypatch, "wikitext-2", sha256={})
    monkeypatch.setattr(text_sets, "PIECE_BYTES", size)
    (wiki / FILES["train"]).write_text(TITLES, newline=end)
    prepare("wikitext-2", wiki, level=level, report=quiet)
    store = open_store("wikitext-2", level)
    edges = store.offsets("train", "text").tolist()
    assert (edges[0], edges[-1]) == (0, len(store.values("train", "text")))
    if level == "bytes":
        text = TITLES.replace("\n", end).encode()
        firsts = [text[a:].lstrip().split(b"\n")[0].strip() for a in edges[:-1]]
        assert firsts == [b"= First =", b"= Second =", b"= X = 3 ="]
    else:
        lines = [n for n, symbol in enumerate(read("wikitext-2/words", "train"), 1) if symbol == "<eos>"]
        assert edges == [0, lines[9], lines[13], lines[-1]]


def test_each_file_is_a_document(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_sets, "PIECE_BYTES", 2)
    for n in range(40):
        (tmp_path / f"{n:02}.txt").write_text("ab\n" * (n + 1))
    prepare("books", tmp_path, level="bytes", report=quiet)
    sizes = np.diff(open_store("books", "bytes").offsets("train", "text"))
    assert sizes.tolist() == [3 * (n + 1) for n in range(36)]
    assert open_store("books", "bytes").manifest.row == "document"


def test_bytes(data_folder: Path, wiki: Path) -> None:
    path = prepare("wikitext-2", wiki.parent, level="bytes", report=quiet)  # the folder above will do
    assert path.name == "bytes"
    assert symbols("wikitext-2/bytes") == list(range(256))
    for split, text in WIKI.items():
        assert tokens("wikitext-2/bytes", split) == list(text.encode())
    assert "unknown" not in open_store("wikitext-2", "bytes").manifest.counts["val"]


@pytest.fixture
def enwik8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A small enwik8 in a zip, of ü and a to i."""
    content = "".join(f"{c}ü\n" for c in "abcdefghi" * 4).encode()
    cut = {"train": 100, "val": 20, "test": len(content) - 120}
    digest = hashlib.sha256(content).hexdigest()
    replace(monkeypatch, "enwik8", cut=cut, sha256={"whole": digest})
    prefix = hashlib.sha256(content[:60]).hexdigest()
    cut = {"train": 50, "val": 5, "test": 5}
    replace(monkeypatch, "enwik8-prefix", cut=cut, sha256={"whole": prefix})
    with zipfile.ZipFile(tmp_path / "enwik8.zip", "w") as archive:
        archive.writestr("enwik8", content)
    return content


def test_enwik8_with_and_without_newlines(data_folder: Path, tmp_path: Path, enwik8: bytes) -> None:
    for level in ("bytes", "bytes-nonl"):
        prepare("enwik8", tmp_path, level=level, report=quiet)
    assert symbols("enwik8/bytes") == sorted(set(enwik8))
    assert symbols("enwik8/bytes-nonl") == sorted(set(enwik8) - {10})
    assert read("enwik8/bytes", "train") == list(enwik8[:100])
    for split, part in (("train", enwik8[:100]), ("val", enwik8[100:120]), ("test", enwik8[120:])):
        assert read("enwik8/bytes-nonl", split) == [byte for byte in part if byte != 10]
    loaded = tokenizer("enwik8/bytes-nonl")
    assert loaded.decode(loaded.encode("ab\nc")) == "abc"


def test_the_prefix_is_cut_from_the_whole_file(data_folder: Path, tmp_path: Path, enwik8: bytes) -> None:
    prepare("enwik8-prefix", tmp_path, report=quiet)
    assert read("enwik8-prefix/bytes", "train") == list(enwik8[:50])
    assert read("enwik8-prefix/bytes", "test") == list(enwik8[55:60])
    assert "NOT the benchmark" in open_store("enwik8-prefix", "bytes").manifest.title


def test_wholes_of_another_length_or_content(data_folder: Path, tmp_path: Path, enwik8: bytes) -> None:
    (tmp_path / "enwik8").write_bytes(enwik8 + b"x")
    with pytest.raises(UserError, match="enwik8 has 145 bytes, enwik8 has 144"):
        prepare("enwik8", tmp_path, report=quiet)
    (tmp_path / "enwik8").write_bytes(enwik8[:-1] + b"x")
    with pytest.raises(UserError, match=r"sha256 of the content is .* use the original files"):
        prepare("enwik8", tmp_path, report=quiet)
    with zipfile.ZipFile(tmp_path / "text8.zip", "w") as archive:
        archive.writestr("a", b"")
        archive.writestr("b", b"")
    with pytest.raises(UserError, match=r"text8\.zip: 2"):
        prepare("text8", tmp_path, report=quiet)


def test_characters_of_treebank_lines(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(monkeypatch, "ptb", sha256={})
    for split in ("train", "valid", "test"):
        (tmp_path / f"ptb.{split}.txt").write_text(" no it was n't \n but N \n")
    prepare("ptb", tmp_path, level="chars", report=quiet)
    assert "".join(read("ptb/chars", "val")) == "no it was n't\nbut N\n"
    assert symbols("ptb/chars") == sorted(set("no it was n't\nbut N\n"))
    prepare("ptb", tmp_path, level="words", report=quiet)
    assert read("ptb/words", "valid") == ["no", "it", "was", "n't", "<eos>", "but", "N", "<eos>"]


def test_characters_are_cut_by_bytes_but_never_inside_one(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "üaüüb" * 6
    cut = {"train": 24, "val": 24}
    replace(monkeypatch, "tinyshakespeare", cut=cut, sha256={})
    (tmp_path / "input.txt").write_text(text, encoding="utf-8")
    for size in (1, 2, 5, 1000):
        monkeypatch.setattr(text_sets, "PIECE_BYTES", size)
        monkeypatch.setenv("REPRO_DATA", str(data_folder / str(size)))
        prepare("tinyshakespeare", tmp_path, report=quiet)
        assert "".join(read("tinyshakespeare/chars", "val")) == text[15:]
    with pytest.raises(UserError, match=r"'test'.*train, val"):
        tokens("tinyshakespeare/chars", "test")


def billion(folder: Path, vocabulary: bool = True) -> Path:
    """The layout of the official release, with three training shards."""
    root = folder / "1-billion-word-language-modeling-benchmark-r13output"
    train = root / "training-monolingual.tokenized.shuffled"
    held = root / "heldout-monolingual.tokenized.shuffled"
    train.mkdir(parents=True)
    held.mkdir()
    for i in range(1, 4):
        (train / f"news.en-{i:05}-of-00100").write_text(f"a b c{i}\nb a .\n")
    (held / "news.en.heldout-00000-of-00050").write_text("a d\n")
    (held / "news.en.heldout-00001-of-00050").write_text("b .\nc1 b\n")
    if vocabulary:
        (root / "1b_word_vocab.txt").write_text("</S>\n<S>\nb 17\na\n<UNK>\nc1\n")
    return folder


def test_sentences_of_one_billion_words(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(monkeypatch, "lm1b", shards={"train": 3})
    prepare("lm1b", billion(tmp_path / "x"), report=quiet)
    assert symbols("lm1b/words") == ["</S>", "<S>", "b", "a", "<UNK>", "c1"]
    assert read("lm1b/words", "train")[:9] == ["<S>", "a", "b", "c1", "<S>", "b", "a", "<UNK>", "<S>"]
    assert read("lm1b/words", "test") == ["<S>", "a", "<UNK>", "<S>"]
    assert read("lm1b/words", "val") == ["<S>", "b", "<UNK>", "<S>", "c1", "b", "<S>"]
    store = open_store("lm1b", "words")
    assert store.manifest.row == "sentence"
    assert store.offsets("val", "text").tolist() == [0, 1, 4, 7], (
        "the mark before the first sentence, then sentences"
    )
    assert store.offsets("train", "text").tolist() == [0, 1, 5, 9, 13, 17, 21, 25]
    assert store.manifest.counts["train"] == {"examples": 6, "tokens": {"text": 25}, "unknown": 5}
    assert tokenizer("lm1b/words").eos_id == 1

    prepare("lm1b", tmp_path / "x", level="words-min3", report=quiet)
    assert symbols("lm1b/words-min3") == ["<S>", "<UNK>", "a", "b", "."]
    assert open_store("lm1b", "words-min3").manifest.counts["train"]["unknown"] == 3


def test_an_incomplete_billion_is_refused(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"3.*99 files training-mono.*news\.en-\*-of-00100"):
        prepare("lm1b", billion(tmp_path / "x"))
    replace(monkeypatch, "lm1b", shards={"train": 3})
    with pytest.raises(UserError, match=r"no 1b_word_vocab\.txt or vocab-2016-09-10\.txt"):
        prepare("lm1b", billion(tmp_path / "y", vocabulary=False))
    prepare("lm1b", tmp_path / "y", level="words-min3", report=quiet)  # counts its own
    bad = tmp_path / "x" / "1-billion-word-language-modeling-benchmark-r13output" / "1b_word_vocab.txt"
    bad.write_text("a\nb\n")
    with pytest.raises(UserError, match=r"1b_word_vocab\.txt: no <S>.*2 words"):
        prepare("lm1b", tmp_path / "x")


def test_books_are_split_by_files(data_folder: Path, tmp_path: Path) -> None:
    books = tmp_path / "books"
    (books / "more").mkdir(parents=True)
    for i in range(9):
        (books / f"b{i}.txt").write_text(f"book {i}\n")
    (books / "more" / "z.txt.gz").write_bytes(gzip.compress(b"last\n"))
    (books / "b3.txt.gz").write_bytes(b"another form of b3, not looked at")
    prepare("books", books, report=quiet)
    assert bytes(tokens("books/bytes", "test")) == b"last\n"
    assert bytes(tokens("books/bytes", "val")) == b"book 8\n"
    assert bytes(tokens("books/bytes")) == b"".join(b"book %d\n" % i for i in range(8))


def test_books_with_given_splits_or_few_files(data_folder: Path, tmp_path: Path) -> None:
    named, one = tmp_path / "named", tmp_path / "one"
    named.mkdir(), one.mkdir()
    for split in ("train", "valid", "test"):
        (named / f"{split}.txt").write_text(f"{split} a a a\n")
    prepare("books", named, level="words-min3", report=quiet)
    assert read("books/words-min3", "val") == ["<unk>", "a", "a", "a", "<eos>"]
    assert symbols("books/words-min3") == ["<eos>", "<unk>", "a"]
    lines = [f"line {i:03}\n".encode() for i in range(100)]
    (one / "all.txt").write_bytes(b"".join(lines))
    prepare("books", one, report=quiet)
    parts = [bytes(tokens("books/bytes", split)) for split in ("train", "val", "test")]
    assert b"".join(parts) == b"".join(lines)
    assert [part.count(b"\n") for part in parts] == [91, 5, 4]
    assert all(part.endswith(b"\n") for part in parts)


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        ("train dev test", r"no val\.txt or valid\.txt.* val;"),
        ("train test", " val;"),
        ("valid", r"no train\.txt"),
    ],
)
def test_books_with_some_of_the_splits_are_refused(
    data_folder: Path, tmp_path: Path, named: str, missing: str
) -> None:
    for name in (*named.split(), "a", "b"):
        (tmp_path / f"{name}.txt").write_text("a a\n" * 30)
    with pytest.raises(UserError, match=missing):
        prepare("books", tmp_path, report=quiet)
    assert not list(data_folder.glob("*/*"))


@pytest.mark.parametrize("level", ["bytes", "words-min3"])
def test_few_books_are_read_in_whole_lines_and_have_documents(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    lines = [f"line of {i:03} words\n" for i in range(100)]
    (tmp_path / "a.txt").write_text("".join(lines[:40]))
    (tmp_path / "b.txt").write_text("".join(lines[40:]))
    manifests = []
    for size in (7, 2**23):
        monkeypatch.setattr(text_sets, "PIECE_BYTES", size)
        monkeypatch.setenv("REPRO_DATA", str(data_folder / str(size)))
        prepare("books", tmp_path, level=level, report=quiet)
        manifests.append(open_store("books", level).manifest)
    assert manifests[0] == manifests[1]
    store = open_store("books", level)
    train, val = (store.offsets(split, "text").tolist() for split in ("train", "val"))
    first = len("".join(lines[:40])) if level == "bytes" else 40 * 5
    assert train == [0, first, len(tokens(f"books/{level}"))], "the second book begins in the middle of train"
    assert val == [0, len(tokens(f"books/{level}", "val"))]


def test_books_as_subwords(data_folder: Path, tmp_path: Path) -> None:
    text = "".join(f"the cat and the dog saw {i} trees\n" for i in range(300))
    (tmp_path / "all.txt").write_text(text)
    path = prepare("books", tmp_path, vocab_size=290, report=quiet)
    assert path.name == "bpe290"
    loaded = tokenizer("books/bpe290")
    assert isinstance(loaded, ByteBpe)
    result = tokens("books/bpe290", "test")
    assert result.count(loaded.eos_id) == open_store("books", "bpe290").manifest.counts["test"]["examples"]
    lines = text.splitlines()[-result.count(loaded.eos_id) :]
    assert result == [i for line in lines for i in (*loaded.encode(line), loaded.eos_id)]
    loaded.save(tmp_path / "t.json")
    given = prepare("books", tmp_path, tokenizer=tmp_path / "t.json", report=quiet)
    assert given.name.startswith("given290-")
    assert tokens(f"books/{given.name}", "test") == result
    assert prepare("books", tmp_path, level="bpe", tokenizer=tmp_path / "t.json", report=quiet) == given


def test_the_standard_library_is_there_without_any_files(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "lib"
    for folder in ("", "json", "test", "json/tests", "site-packages/x"):
        (library / folder).mkdir(parents=True, exist_ok=True)
        for i in range(60):
            (library / folder / f"m{i}.py").write_text(f"# {folder} {i}\n")
    (library / "m.txt").write_text("no Python")
    monkeypatch.setattr(text_sets.sysconfig, "get_paths", lambda: {"stdlib": str(library)})
    assert ensure_generated("python-stdlib", "bytes")
    assert not ensure_generated("python-stdlib", "bytes")
    result = [
        bytes(tokens("python-stdlib/bytes", split)).decode().splitlines()
        for split in ("train", "val", "test")
    ]
    names = [f"{folder}m{i}.py" for folder in ("", "json/") for i in range(60)]
    places = {name: int(hashlib.sha256(name.encode()).hexdigest(), 16) % 20 for name in names}
    for lines, expected in zip(result, (range(2, 20), [0], [1]), strict=True):
        chosen = sorted(name for name, place in places.items() if place in expected)
        assert lines == [f"# {'json' if '/' in name else ''} {name.split('m')[-1][:-3]}" for name in chosen]
    source = open_store("python-stdlib", "bytes").manifest.source
    assert (source["kind"], source["files"]) == ("generated", 120)
    assert source["revision"] == f"Python {sys.version.split()[0]}"
    assert str(library) not in str(source)
    with pytest.raises(UserError, match="--level words"):
        ensure_generated("python-stdlib", "words")
    for path in (*library.rglob("*.py"), data_folder / "python-stdlib" / "bytes" / "manifest.json"):
        path.unlink()
    with pytest.raises(UserError, match="train is empty"):
        prepare("python-stdlib", level="bytes", report=quiet)


def hub(monkeypatch: pytest.MonkeyPatch, found: Any) -> list[tuple[Any, ...]]:
    """Puts a stand-in for the ``datasets`` package in place; returns the calls it gets."""
    calls: list[tuple[Any, ...]] = []

    def load_dataset(*which: str, revision: str | None = None) -> Any:
        calls.append((*which, revision))
        return found

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return calls


def test_the_hub_gives_the_same_store(data_folder: Path, wiki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WIKI_ENDED = WIKI | {"test": WIKI["test"] + "\n"}
    replace(monkeypatch, "wikitext-2", sha256={
        f"{split}.text": hashlib.sha256(text.encode()).hexdigest() for split, text in WIKI_ENDED.items()
    })  # fmt: skip
    rows = {
        {"val": "validation"}.get(split, split): {
            "text": ["" if line == " " else f"{line}\n" for line in text.split("\n")[:-1]]
        }
        for split, text in WIKI_ENDED.items()
    }
    calls = hub(monkeypatch, rows)
    prepare("wikitext-2", level="bytes", report=quiet)  # hashes agree: blank lines came back as they were
    assert calls == [("Salesforce/wikitext", "wikitext-2-v1", None)]
    assert bytes(tokens("wikitext-2/bytes")).decode() == WIKI["train"]
    rows["validation"]["text"][1] = " the cow saw \n"
    with pytest.raises(UserError, match=r"Salesforce/wikitext.*val: sha256.*wikitext-2 val\.text"):
        prepare("wikitext-2", report=quiet)
    del rows["validation"]
    with pytest.raises(UserError, match=r"val;.*--from DIR"):
        prepare("wikitext-2", report=quiet)


def test_whole_texts_from_the_hub(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace(monkeypatch, "text8", cut={"train": 4, "val": 2, "test": 2})
    rows = {"train": {"text": ["ab a"]}, "validation": {"text": ["ba"]}, "test": {"text": [" b"]}}
    hub(monkeypatch, rows)
    prepare("text8", report=quiet)
    assert symbols("text8/chars") == [" ", "a", "b"]
    assert ["".join(read("text8/chars", split)) for split in ("train", "val", "test")] == ["ab a", "ba", " b"]
    rows["test"]["text"] = [" "]
    (data_folder / "text8" / "chars" / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"afmck/text8.*7 bytes, text8 has 8"):
        prepare("text8", report=quiet)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({FILES["train"]: None}, r"no wiki\.train\.tokens or train\.txt, plain or \.gz"),
        (
            {f"{FILES['val']}.gz": gzip.compress(b"x" * 99, mtime=0)[:-9]},
            r"cannot read .*wiki\.valid\.tokens\.gz",
        ),
        ({f"{FILES['test']}.xz": b"no xz"}, r"cannot read .*wiki\.test\.tokens\.xz"),
        ({FILES["train"]: b"other"}, r"train: sha256 of the content is .* use the original files"),
    ],
)
def test_bad_files_are_named(
    data_folder: Path, wiki: Path, damage: dict[str, bytes | None], message: str
) -> None:
    for name, content in damage.items():
        (wiki / name).unlink() if content is None else (wiki / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        prepare("wikitext-2", wiki, report=quiet)
    assert not list(data_folder.glob("*/*"))


def test_text_that_cannot_be_read(data_folder: Path, wiki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace(monkeypatch, "wikitext-2", sha256={})
    (wiki / FILES["train"]).write_bytes(b"\xff\n")
    with pytest.raises(UserError, match="UTF-8"):
        prepare("wikitext-2", wiki, report=quiet)
    (wiki / FILES["train"]).write_bytes(b"")
    with pytest.raises(UserError, match=r"--from .*: train is empty"):
        prepare("wikitext-2", wiki, level="bytes", report=quiet)
    (tmp := wiki / "none").mkdir()
    with pytest.raises(UserError, match=r"no \*\*/\*\.txt, plain"):
        prepare("books", tmp, report=quiet)
    (tmp / "a.txt").write_text("one line only")
    with pytest.raises(UserError, match="too few lines"):
        prepare("books", tmp, report=quiet)
