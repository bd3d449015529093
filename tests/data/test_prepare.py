"""Obtaining raw text: from files, from the hub (a stand-in), generated; and every refusal."""

import contextlib
import dataclasses
import gzip
import hashlib
import lzma
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from repro.data import prepare as actions
from repro.data import registry
from repro.data.data_set import DataSet, Hub, Options
from repro.data.prepare import ensure_generated, list_sources, open_store, prepare, verify
from repro.data.registry import DATA_SETS
from repro.data.sets.text.text_sets import TextSet, WholeText
from repro.data.sets.translation.pairs import SentencePairs
from repro.data.table import DATA_FILE
from repro.data.tokenizers.tokenizer import ByteBpe
from repro.data.tokenizers.vocabulary import Words
from repro.errors import UserError

LINES = {
    "train.en": [f"a dog and {n} cats run ." for n in range(40)],
    "train.de": [f"ein Hund und {n} Katzen laufen .  " for n in range(40)],
    "val.en": ["one", "two"],
    "val.de": ["eins", "zwei"],
    "test_2016_flickr.en": ["three"],
    "test_2016_flickr.de": ["drei\u2028vier"],  # no line break for us
}


def content(key: str) -> bytes:
    return "".join(f"{line}\n" for line in LINES[key]).encode()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> SentencePairs:
    """Multi30k with other content: the registry's entry with the hashes of the lines above."""
    stripped = "".join(f"{line.strip()}\n" for line in LINES["train.de"]).encode()
    real = DATA_SETS["multi30k"]
    assert isinstance(real, SentencePairs)
    changed = dataclasses.replace(
        real,
        sha256={key: hashlib.sha256(content(key)).hexdigest() for key in LINES},
        stripped={"train.de": hashlib.sha256(stripped).hexdigest()},
    )
    monkeypatch.setitem(registry.DATA_SETS, "multi30k", changed)
    return changed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files, plain, gzipped and xz."""
    where = tmp_path / "files"
    where.mkdir()
    for i, key in enumerate(LINES):
        write, end = [(bytes, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz")][i % 3]
        (where / f"{key}{end}").write_bytes(write(content(key)))
    return where


def quiet(line: str) -> None:
    pass


def test_files_become_a_store(data_folder: Path, small: SentencePairs, folder: Path) -> None:
    output: list[str] = []
    path = prepare("multi30k", folder, vocab_size=280, report=output.append)
    assert path == data_folder / "multi30k" / "bpe280"
    store = open_store("multi30k", "bpe280")
    for key, lines in LINES.items():
        assert store.lines(*key.split(".")) == lines
    assert store.lines("test", "de") == LINES["test_2016_flickr.de"]
    assert store.manifest.missing_splits == ["test_2017_flickr", "test_2017_mscoco"]
    hashes = store.manifest.source.pop("sha256")
    assert hashes == {key: hashlib.sha256(content(key)).hexdigest() for key in LINES}
    assert store.manifest.source == {"kind": "files", "id": "bentrevett/multi30k", "revision": None}
    assert "test_2017_flickr, test_2017_mscoco" in output[-1]
    assert verify("multi30k") == ["bpe280"]


def test_a_whole_store_is_kept_and_said_so(data_folder: Path, small: SentencePairs, folder: Path) -> None:
    inode = prepare("multi30k", folder, vocab_size=280, report=quiet).stat().st_ino
    output: list[str] = []
    assert prepare("multi30k", None, vocab_size=280, report=output.append).stat().st_ino == inode
    prepare("multi30k", folder, vocab_size=280, report=output.append)
    kept = "kept multi30k/bpe280: already prepared"
    assert output == [kept, f"{kept}; for other files delete {data_folder}/multi30k/bpe280 first"]


def test_the_vocabulary_is_learned_from_train_only(
    data_folder: Path, small: SentencePairs, folder: Path
) -> None:
    prepare("multi30k", folder, vocab_size=280, report=quiet)
    expected = ByteBpe.train(LINES["train.en"] + LINES["train.de"], 280)
    assert open_store("multi30k", "bpe280").manifest.tokenizer["sha256"] == expected.sha256


def test_a_given_tokeniser_is_used(
    data_folder: Path, small: SentencePairs, folder: Path, tmp_path: Path
) -> None:
    given = ByteBpe.train(LINES["train.en"], 270)
    given.save(tmp_path / "mine.json")
    path = prepare("multi30k", folder, tokenizer=tmp_path / "mine.json", report=quiet)
    assert path.name == f"given270-{given.sha256[:8]}"
    store = open_store("multi30k", path.name)
    assert store.values("val", "en").tolist() == [i for line in LINES["val.en"] for i in given.encode(line)]


def test_wrong_content_is_refused(data_folder: Path, small: SentencePairs, folder: Path) -> None:
    (folder / "val.de").unlink(missing_ok=True)
    for path in folder.glob("val.de*"):
        path.unlink()
    (folder / "val.de.gz").write_bytes(gzip.compress(content("val.de").replace(b"zwei", b"drei")))
    with pytest.raises(UserError, match=r"val\.de: sha256"):
        prepare("multi30k", folder)
    assert not list(data_folder.glob("*/*"))


@pytest.mark.parametrize(
    ("name", "written", "message"),
    [
        ("train.en", None, r"no train\.en, plain or"),
        ("test_2017_flickr.en.gz", gzip.compress(b"x\n", mtime=0), r"no test_2017_flickr\.de"),
        ("train.de.gz", gzip.compress(content("train.de"), mtime=0)[:-20], r"cannot read .*train\.de\.gz"),
        ("train.de.gz", b"no gzip", r"cannot read .*train\.de\.gz"),
        ("train.de.xz", b"no xz", r"cannot read .*train\.de\.xz"),
    ],
)
def test_bad_files_are_named(
    data_folder: Path, small: SentencePairs, folder: Path, name: str, written: bytes | None, message: str
) -> None:
    for path in folder.glob(f"{name.removesuffix('.gz').removesuffix('.xz')}*"):
        path.unlink()
    if written is not None:
        (folder / name).write_bytes(written)
    with pytest.raises(UserError, match=message):
        prepare("multi30k", folder)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b"one\n", r"val\.en has 1 lines, fewer"),
        (b"\xff\n\n", r"val\.en, line 1 is not UTF-8"),
        (b"", r"val\.en has 0 lines"),
    ],
)
def test_sides_that_do_not_match(
    data_folder: Path,
    small: SentencePairs,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: bytes,
    message: str,
) -> None:
    monkeypatch.setitem(registry.DATA_SETS, "multi30k", dataclasses.replace(small, sha256={}))
    for path in folder.glob("val.en*"):
        path.unlink()
    (folder / "val.en").write_bytes(written)
    with pytest.raises(UserError, match=message):
        prepare("multi30k", folder)


def hub(monkeypatch: pytest.MonkeyPatch, found: Any) -> list[tuple[Any, ...]]:
    """Puts a stand-in for the ``datasets`` package in place; returns the calls it gets."""
    calls: list[tuple[Any, ...]] = []

    def load_dataset(name: str, revision: str | None = None) -> Any:
        calls.append((name, revision))
        if isinstance(found, Exception):
            raise found
        return found

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return calls


class Rows(list[dict[str, str]]):
    """The rows of one split, as the library gives them."""

    info = SimpleNamespace(
        download_checksums={f"hf://datasets/bentrevett/multi30k@{'a1' * 20}/train.jsonl": {"num_bytes": 3}}
    )


def hub_of(data_set: DataSet) -> Hub:
    assert data_set.hub is not None
    return data_set.hub


def split_rows(split: str) -> Rows:
    pairs = zip(LINES[f"{split}.en"], LINES[f"{split}.de"], strict=True)
    return Rows({"en": en, "de": de} for en, de in pairs)


@pytest.mark.parametrize("stripped", [False, True])
def test_the_hub_becomes_a_store(
    data_folder: Path, small: SentencePairs, monkeypatch: pytest.MonkeyPatch, stripped: bool
) -> None:
    rows = {official: split_rows(ours) for ours, official in hub_of(small).splits.items()}
    if stripped:
        for row in rows["train"]:
            row["de"] = row["de"].strip()
    calls = hub(monkeypatch, rows)
    prepare("multi30k", vocab_size=280, report=quiet)
    assert calls == [("bentrevett/multi30k", None)]
    store = open_store("multi30k", "bpe280")
    assert store.lines("test", "en") == LINES["test_2016_flickr.en"]
    # the revision that came is recorded, though none was asked for
    assert store.manifest.source.pop("sha256").keys() == LINES.keys()
    assert store.manifest.source == {"kind": "hub", "id": "bentrevett/multi30k", "revision": "a1" * 20}


def test_a_hub_out_of_reach_names_the_other_way(
    data_folder: Path, small: SentencePairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub(monkeypatch, ConnectionError("Couldn't reach it on the Hub\nand a long story"))
    with pytest.raises(UserError, match=r"repro data prepare multi30k --from DIR") as caught:
        prepare("multi30k")
    assert "\n" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"datasets.*--from DIR"):
        prepare("multi30k")


def test_other_content_on_the_hub_is_refused(
    data_folder: Path, small: SentencePairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {official: split_rows(ours) for ours, official in hub_of(small).splits.items()}
    rows["validation"][1]["de"] = "drei"
    hub(monkeypatch, rows)
    with pytest.raises(UserError, match=r"multi30k val\.de"):
        prepare("multi30k")
    del rows["validation"]
    with pytest.raises(UserError, match=r"val;.*--from DIR"):
        prepare("multi30k")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "multi3ok"}, "unknown data set 'multi3ok'; nearest: multi30k"),
        (
            {"name": "iwslt14-de-en"},
            r"cannot be downloaded here; get its files \(train\.tags.*\) .*--vocab-size 10000 --from DIR`",
        ),
        ({"name": "numbers-en-de", "from_dir": Path("x")}, "is generated; leave out --from"),
        ({"name": "multi30k", "size": 5}, "leave out --size 5"),
        ({"name": "numbers-en-de", "size": 0}, "--size 0"),
        ({"name": "numbers-en-de", "size": 20, "vocab_size": 0}, "--vocab-size 0"),
        ({"name": "numbers-en-de", "vocab_size": 259}, "--vocab-size 259 must be at least 260"),
        ({"name": "numbers-en-de", "vocab_size": 10**9}, "--vocab-size 1000000000 must be at most 16777216"),
        ({"name": "books", "vocab_size": -1}, "--vocab-size -1"),
        ({"name": "multi30k", "from_dir": Path("no/such")}, "no such folder"),
        ({"name": "multi30k", "tokenizer": Path("a.json"), "vocab_size": 9}, "leave out --vocab-size 9"),
        ({"name": "multi30k", "tokenizer": Path("no.json")}, "cannot read the tokeniser file no.json"),
        ({"name": "numbers-en-de", "size": 20, "vocab_size": 9999}, "9999 is too large.*the largest is"),
        ({"name": "multi30k", "level": "words"}, "no --level words; it has bpe$"),
        ({"name": "cmu-dog", "level": "words"}, "no --level words; it has bpe, gpt2$"),
        ({"name": "wikitext-2", "level": "chars"}, "no --level chars; it has words, bytes"),
        ({"name": "wikitext-2", "vocab_size": 9}, "vocabulary of its data; leave out --vocab-size 9"),
        ({"name": "ptb", "tokenizer": Path("a.json")}, "leave out --tokenizer a.json"),
        (
            {"name": "books", "level": "bytes", "vocab_size": 300},
            "--level bytes .* leave out --vocab-size 300",
        ),
        ({"name": "python-stdlib", "size": 5}, "leave out --size 5"),
        ({"name": "python-stdlib", "from_dir": Path("x")}, "is generated; leave out --from"),
        (
            {"name": "enwik8"},
            r"its files \(enwik8\) .*`repro data prepare enwik8 --level bytes --from DIR`",
        ),
        (
            {"name": "lm1b"},
            r"its files \(\S+, \S+, \S+\) .*`repro data prepare lm1b --level words --from DIR`",
        ),
        ({"name": "enwik8", "from_dir": Path(".")}, r"no enwik8, plain or"),
    ],
)
def test_bad_options_are_named(data_folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        prepare(**options, report=quiet)
    assert not list(data_folder.glob("*/*"))


@pytest.mark.parametrize("name", ["multi30k", "cmu-dog", "grammar-trees"])
def test_the_level_of_subwords_may_be_named(name: str) -> None:
    one, named = DATA_SETS[name], Options(level="bpe")
    one.check_options(named)
    assert one.variant(named) == one.default_variant


def test_the_list_shows_sources_and_stores(numbers_store: Path) -> None:
    messages = {one["name"]: one for one in list_sources()}
    assert set(messages) >= {
        "multi30k",
        "wmt14-en-de",
        "numbers-en-de",
        "wikitext-103",
        "enwik8",
        "python-stdlib",
    }
    assert messages["multi30k"]["revision"] == "unpinned"
    assert [messages[name]["obtained"] for name in ("wmt14-en-de", "wmt14-en-fr")] == ["hub or --from"] * 2
    assert messages["iwslt14-de-en"]["obtained"] == "--from"
    assert messages["numbers-en-de"]["stores"] == ["bpe300-n300"]
    assert messages["multi30k"]["stores"] == []
    assert all(one["licence"] and one["size"] for one in messages.values())
    assert messages["multi30k"]["languages"] == ("en", "de")
    assert messages["multi30k"]["levels"] == ("bpe",)
    assert (messages["enwik8"]["languages"], messages["enwik8"]["levels"]) == (
        ("text",),
        ("bytes", "bytes-nonl"),
    )
    assert (messages["enwik8"]["obtained"], messages["wikitext-103"]["obtained"]) == (
        "--from",
        "hub or --from",
    )


def test_verify_checks_every_store(numbers_store: Path) -> None:
    assert verify("numbers-en-de") == ["bpe300-n300"]
    path = numbers_store / "train" / DATA_FILE
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(UserError, match=r"sha256 of train/data-00000-of-00001\.arrow"):
        verify("numbers-en-de")
    with pytest.raises(UserError, match="`repro data prepare multi30k --vocab-size 4000`"):
        verify("multi30k")
    with pytest.raises(UserError, match="`repro data prepare ptb --level words --from DIR`"):
        verify("ptb")


def test_a_vocabulary_of_words_is_no_tokeniser_to_translate_with(data_folder: Path, tmp_path: Path) -> None:
    Words.from_symbols(["<eos>", "a"], line_end="<eos>", unknown=None).save(tmp_path / "w.json")
    with pytest.raises(UserError, match=r"w\.json.*byte-level BPE or SentencePiece"):
        prepare("multi30k", tmp_path, tokenizer=tmp_path / "w.json", report=quiet)


def test_known_hashes_and_cuts_are_complete() -> None:
    for one in DATA_SETS.values():
        assert all(len(digest) == 64 and int(digest, 16) for digest in one.sha256.values())
        if isinstance(one, TextSet):
            assert one.levels
            keys = {"whole"} if isinstance(one, WholeText) else {f"{split}.text" for split in one.splits}
            assert set(one.sha256) in (set(), keys)
            assert one.hub is None or set(one.hub.splits) == set(one.splits)
        if isinstance(one, WholeText):
            assert set(one.cut) == set(one.splits)
    enwik8 = DATA_SETS["enwik8"]
    assert isinstance(enwik8, WholeText)
    assert sum(enwik8.cut.values()) == 100_000_000


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_command_of_a_store_makes_that_store(name: str) -> None:
    one = DATA_SETS[name]
    made = [one.default_variant]
    made += [level for level in one.levels if level != "bpe"]
    made += ["bpe300"] if "bpe" in one.levels else []
    made += [f"{one.default_variant}-n20"] if one.sizable else []
    for variant in made:
        options = one.options_of(variant)
        one.check_variant(variant)
        one.check_options(options)
        assert one.variant(options) == variant
        assert str(options) in one.command(variant)
        assert one.command(variant).endswith(" --from DIR") == (one.obtained == "--from")


def test_only_generated_stores_are_made_on_their_own(data_folder: Path) -> None:
    assert ensure_generated("numbers-en-de", "bpe290-n200")
    assert len(open_store("numbers-en-de", "bpe290-n200").lines("train", "en")) == 200
    assert not ensure_generated("numbers-en-de", "bpe290-n200")
    assert not ensure_generated("multi30k", "bpe8000")
    assert not (data_folder / "multi30k").exists()


def test_ranks_that_come_at_once_make_one_store(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both, made = threading.Barrier(2), list[str]()

    def make(name: str, **_: object) -> None:
        made.append(name)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # the other one, if it comes here too
        (data_folder / name / "bpe290-n200").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(actions, "prepare", make)
    with ThreadPoolExecutor(2) as ranks:
        messages = list(ranks.map(lambda _: ensure_generated("numbers-en-de", "bpe290-n200"), range(2)))
    assert made == ["numbers-en-de"]
    assert sorted(messages) == [False, True]


def test_sources_need_no_heavy_import() -> None:
    code = (
        "import sys, repro.data, repro.data.prepare as s; s.list_sources(); "
        "heavy = ('torch', 'lightning', 'datasets', 'pandas', 'pyarrow', 'tokenizers', 'sentencepiece'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    messages = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert messages.stdout.strip() == "[]"
