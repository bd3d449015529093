"""Large parallel corpora found in folders or on the hub (a stand-in), and every refusal before anything is made."""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from repro.data.data_set import Options
from repro.data.prepare import open_store, prepare
from repro.data.registry import DATA_SETS
from repro.data.sets.translation.pairs import Bitext, SentencePairs
from repro.errors import UserError
from tests.data.parallel_folder import CORPORA, HELD, segments, small_wmt, text, write_iwslt, write_wmt

PAIRS = [(en, de.removesuffix("\r")) for pairs in CORPORA.values() for en, de in pairs]


@pytest.fixture
def wmt(monkeypatch: pytest.MonkeyPatch) -> SentencePairs:
    return small_wmt(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_wmt(tmp_path / "files")


def train(found: Bitext) -> Iterator[tuple[str, ...]]:
    assert found.train is not None
    return found.train()


def test_documents_come_one_after_another_and_are_told(wmt: SentencePairs, folder: Path) -> None:
    result = wmt.bitext(Options(folder))
    assert list(train(result)) == PAIRS
    assert result.lines == {
        split: {part: HELD[f"{split}.{part}"] for part in ("en", "de")}
        for split in ("newstest2013", "newstest2014")
    }
    files = result.origin["files"]
    assert list(files) == [f"{stem.split('/')[-1]}.{part}" for stem in CORPORA for part in ("en", "de")]
    assert files["commoncrawl.de-en.en"]["lines"] == 3
    assert result.deviations == []


def test_packed_files_and_a_later_release_are_taken_and_the_latter_told(
    wmt: SentencePairs, folder: Path
) -> None:
    nine = folder / "training-parallel-nc-v9" / "training"
    for part in ("en", "de"):
        old = nine / f"news-commentary-v9.de-en.{part}"
        packed = folder / "training" / f"news-commentary-v12.de-en.{part}.gz"
        packed.write_bytes(gzip.compress(old.read_bytes()))
    assert wmt.bitext(Options(folder)).deviations == []  # the recipe's own goes first
    for path in nine.iterdir():
        path.unlink()
    result = wmt.bitext(Options(folder))
    assert list(train(result)) == PAIRS
    assert result.deviations == ["news-commentary-v12.de-en instead of news-commentary-v9.de-en"]
    assert "news-commentary-v12.de-en.de" in result.origin["files"]


def test_a_ready_training_split_goes_first(wmt: SentencePairs, folder: Path) -> None:
    for part in ("en", "de"):
        (folder / f"train.{part}").write_text(f"only {part}\n")
    result = wmt.bitext(Options(folder))
    assert list(train(result)) == [("only en", "only de")]
    assert result.deviations == ["training pairs as they were given, in train"]


def test_test_sets_may_be_marked_up(data_folder: Path, wmt: SentencePairs, folder: Path) -> None:
    for (part, role), name in (
        (pair, name) for pair in (("en", "src"), ("de", "ref")) for name in ("newstest2013", "newstest2014")
    ):
        plain = next(folder.rglob(f"{name}.{part}"))
        pair = "-deen" if name == "newstest2014" else ""
        (plain.parent / f"{name}{pair}-{role}.{part}.sgm").write_bytes(segments(HELD[f"{name}.{part}"]))
        plain.unlink()
    # blanks at the ends are the markup's, so a plain file with such blanks has another hash
    with pytest.raises(UserError, match=r"newstest2013\.en: sha256"):
        prepare("wmt14-en-de", folder)
    held = wmt.bitext(Options(folder)).lines
    assert held["newstest2013"]["en"] == [line.strip() for line in HELD["newstest2013.en"]]
    assert held["newstest2014"]["de"] == HELD["newstest2014.de"]


def remove(folder: Path, *names: str) -> None:
    for name in names:
        next(folder.rglob(name)).unlink()


def test_a_missing_side_is_named(wmt: SentencePairs, folder: Path) -> None:
    remove(folder, "commoncrawl.de-en.de")
    with pytest.raises(UserError, match=r"no commoncrawl\.de-en\.de, .* beside .*commoncrawl\.de-en\.en"):
        wmt.bitext(Options(folder))


def test_a_missing_document_is_named(wmt: SentencePairs, folder: Path) -> None:
    remove(folder, "europarl-v7.de-en.de", "europarl-v7.de-en.en")
    with pytest.raises(UserError, match=r"no europarl-v7\.de-en\.en, nor train\.en"):
        wmt.bitext(Options(folder))
    with pytest.raises(UserError, match=r"--from.*/nowhere:"):
        prepare("wmt14-en-de", folder / "nowhere")


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("newstest2014.de", ["A", "B", "C", "E"], r"newstest2014\.de: sha256 .* use the original files"),
        ("newstest2013.en", ["one"], r"newstest2013\.en has 1 lines, fewer"),
    ],
)
def test_other_content_is_refused(
    data_folder: Path, wmt: SentencePairs, folder: Path, name: str, lines: list[str], message: str
) -> None:
    next(folder.rglob(name)).write_bytes(text(lines))
    with pytest.raises(UserError, match=message):
        prepare("wmt14-en-de", folder)


def test_a_part_of_a_test_set_is_refused_where_no_hash_is_known(
    data_folder: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_wmt(monkeypatch, hashes={})
    for part in ("en", "de"):
        (folder / f"newstest2014.{part}").write_text("filtered\n" * 3)
    with pytest.raises(UserError, match=r"newstest2014 has 3 pairs, 4 are needed"):
        prepare("wmt14-en-de", folder)
    (folder / "newstest2014.de").write_text("filtered\n" * 2)
    with pytest.raises(UserError, match=r"newstest2014\.de has 2 lines, fewer than the other side"):
        prepare("wmt14-en-de", folder)
    (folder / "newstest2014.de").write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"newstest2014\.de, line 1 is not UTF-8"):
        prepare("wmt14-en-de", folder)


def test_talks_are_found_in_their_folder_and_validation_is_left_to_be_cut(tmp_path: Path) -> None:
    source = DATA_SETS["iwslt14-de-en"]
    assert isinstance(source, SentencePairs)
    result = source.bitext(Options(write_iwslt(tmp_path)))
    assert list(result.lines) == ["test"]
    english = result.lines["test"]["en"]
    assert english[::2] == [
        f"{talks} Number"
        for talks in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    ]
    assert english[1] == "It's Fine"
    pairs = list(train(result))
    assert pairs[0] == ("A Title Nummer", "A Title Number")
    assert len(pairs) == 46
    for part in ("de", "en"):
        (tmp_path / f"valid.{part}").write_text("ready\n")
    assert source.bitext(Options(tmp_path)).lines["val"] == {"de": ["ready"], "en": ["ready"]}


# --- the hub ------------------------------------------------------------------------------------------------------


def rows(pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """A split as the library gives it."""
    return [{"translation": {"de": de, "en": en}} for en, de in pairs]


def on_the_hub(**changes: Any) -> dict[str, Any]:
    """The three splits, held-out ones as if read from marked-up files without care."""
    held = {
        official: [
            (en.strip().replace("&", "&amp;") + " ", de.replace("&", "&amp;"))
            for en, de in zip(HELD[f"{ours}.en"], HELD[f"{ours}.de"], strict=True)
        ]
        for ours, official in (("newstest2013", "validation"), ("newstest2014", "test"))
    }
    return {"train": rows(PAIRS), **{split: rows(pairs) for split, pairs in held.items()}} | changes


@pytest.fixture
def stripped(monkeypatch: pytest.MonkeyPatch, wmt: SentencePairs) -> SentencePairs:
    """The hashes of held-out lines without blanks at their ends, as the true ones have none."""
    import hashlib

    return small_wmt(
        monkeypatch,
        {k: hashlib.sha256(text([x.strip() for x in v])).hexdigest() for k, v in HELD.items()},
    )


def stand_in(monkeypatch: pytest.MonkeyPatch, found: Any) -> list[Any]:
    """Puts a stand-in for the hub's package in place; returns the calls it gets."""
    calls: list[Any] = []

    def load_dataset(*which: str, revision: str | None) -> Any:
        calls.append((*which, revision))
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


def test_pairs_of_the_hub(
    data_folder: Path, stripped: SentencePairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stand_in(monkeypatch, on_the_hub())
    result = stripped.bitext(Options())
    assert calls == [("wmt/wmt14", "de-en", None)]
    assert result.origin == {"kind": "hub", "id": "wmt/wmt14", "revision": None}
    assert result.lines["newstest2013"]["en"][2] == "three & more"
    assert list(train(result)) == PAIRS
    store = open_store("wmt14-en-de", prepare("wmt14-en-de", vocab_size=280, report=lambda line: None).name)
    assert len(store.lines("train", "en")) == 32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": rows([("a", "A")] * 4)}, r"wmt/wmt14 on the hub, newstest2014\.en: sha256"),
        ({"validation": rows([("a\nb", "A")])}, r"a line of newstest2013 holds a line break"),
    ],
)
def test_a_bad_hub_is_refused_in_one_line(
    data_folder: Path,
    stripped: SentencePairs,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    message: str,
) -> None:
    stand_in(monkeypatch, on_the_hub(**changes))
    with pytest.raises(UserError, match=message) as caught:
        prepare("wmt14-en-de")
    assert "\n" not in str(caught.value)


def test_a_hub_out_of_reach_or_without_a_split(
    stripped: SentencePairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = on_the_hub()
    del result["train"]
    stand_in(monkeypatch, result)
    with pytest.raises(UserError, match=r"train;.*--from DIR"):
        stripped.bitext(Options())
    stand_in(monkeypatch, ConnectionError("offline"))
    with pytest.raises(UserError, match=r"\(offline\); .*repro data prepare wmt14-en-de --from DIR"):
        stripped.bitext(Options())
