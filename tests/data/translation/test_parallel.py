"""Large parallel corpora found in folders or on the hub (a stand-in), and every refusal before anything is made."""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from repro.data.options import Options
from repro.data.prepare import prepare
from repro.data.registry import DATA_SETS
from repro.data.sets.translation.parallel import ParallelCorpus
from repro.errors import UserError
from tests.data.parallel_folder import CORPORA, HELD, segments, small_wmt, text, write_iwslt, write_wmt

PAIRS = [pair for pairs in CORPORA.values() for pair in pairs]


@pytest.fixture
def wmt(monkeypatch: pytest.MonkeyPatch) -> ParallelCorpus:
    return small_wmt(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_wmt(tmp_path / "files")


def test_documents_come_one_after_another_and_are_told(wmt: ParallelCorpus, folder: Path) -> None:
    found = wmt.bitext(Options(folder))
    assert list(found.train()) == PAIRS
    assert found.held_out == {
        split: {part: HELD[f"{split}.{part}"] for part in ("en", "de")}
        for split in ("newstest2013", "newstest2014")
    }
    files = found.origin["files"]
    assert list(files) == [f"{stem.split('/')[-1]}.{part}" for stem in CORPORA for part in ("en", "de")]
    assert files["commoncrawl.de-en.en"]["lines"] == 3
    assert found.deviations == []


def test_packed_files_and_a_later_release_are_taken_and_the_latter_told(
    wmt: ParallelCorpus, folder: Path
) -> None:
    nine = folder / "training-parallel-nc-v9" / "training"
    for part in ("en", "de"):
        old = nine / f"news-commentary-v9.de-en.{part}"
        packed = folder / "training" / f"news-commentary-v12.de-en.{part}.gz"
        packed.write_bytes(gzip.compress(old.read_bytes()))
    assert wmt.bitext(Options(folder)).deviations == []  # the recipe's own goes first
    for path in nine.iterdir():
        path.unlink()
    found = wmt.bitext(Options(folder))
    assert list(found.train()) == PAIRS
    assert found.deviations == ["news-commentary-v12.de-en instead of news-commentary-v9.de-en"]
    assert "news-commentary-v12.de-en.de" in found.origin["files"]


def test_a_ready_training_split_goes_first(wmt: ParallelCorpus, folder: Path) -> None:
    for part in ("en", "de"):
        (folder / f"train.{part}").write_text(f"only {part}\n")
    found = wmt.bitext(Options(folder))
    assert list(found.train()) == [("only en", "only de")]
    assert found.deviations == ["training pairs as they were given, in train"]


def test_test_sets_may_be_marked_up(
    wmt: ParallelCorpus, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for (part, role), name in (
        (pair, name) for pair in (("en", "src"), ("de", "ref")) for name in ("newstest2013", "newstest2014")
    ):
        plain = next(folder.rglob(f"{name}.{part}"))
        pair = "-deen" if name == "newstest2014" else ""
        (plain.parent / f"{name}{pair}-{role}.{part}.sgm").write_bytes(segments(HELD[f"{name}.{part}"]))
        plain.unlink()
    # blanks at the ends are the markup's, so a plain file with such blanks has another hash
    with pytest.raises(UserError, match=r"newstest2013-src\.en\.sgm: sha256"):
        wmt.bitext(Options(folder))
    source = small_wmt(monkeypatch, hashes={"newstest2013.de": wmt.sha256["newstest2013.de"]})
    held = source.bitext(Options(folder)).held_out
    assert held["newstest2013"]["en"] == [line.strip() for line in HELD["newstest2013.en"]]
    assert held["newstest2014"]["de"] == HELD["newstest2014.de"]


def remove(folder: Path, *names: str) -> None:
    for name in names:
        next(folder.rglob(name)).unlink()


def test_a_missing_side_is_named(wmt: ParallelCorpus, folder: Path) -> None:
    remove(folder, "commoncrawl.de-en.de")
    with pytest.raises(UserError, match=r"commoncrawl\.de-en\.en.*commoncrawl\.de-en\.de"):
        wmt.bitext(Options(folder))


def test_a_missing_document_is_named(wmt: ParallelCorpus, folder: Path) -> None:
    remove(folder, "europarl-v7.de-en.de", "europarl-v7.de-en.en")
    with pytest.raises(UserError, match=r"no europarl-v7\.de-en\.en, nor train\.en"):
        wmt.bitext(Options(folder))
    with pytest.raises(UserError, match=r"--from.*/nowhere:"):
        prepare("wmt14-en-de", folder / "nowhere")


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        ("newstest2014.de", ["A", "B", "C", "E"], r"newstest2014\.de: sha256 .* use the original files"),
        ("newstest2013.en", ["one"], r"newstest2013\.en: sha256"),
    ],
)
def test_other_content_is_refused(
    wmt: ParallelCorpus, folder: Path, name: str, lines: list[str], said: str
) -> None:
    next(folder.rglob(name)).write_bytes(text(lines))
    with pytest.raises(UserError, match=said):
        wmt.bitext(Options(folder))


def test_a_part_of_a_test_set_is_refused_where_no_hash_is_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = small_wmt(monkeypatch, hashes={})
    for part in ("en", "de"):
        (folder / f"newstest2014.{part}").write_text("filtered\n" * 3)
    with pytest.raises(UserError, match=r"newstest2014\.en has 3.*4"):
        source.bitext(Options(folder))
    (folder / "newstest2014.de").write_text("filtered\n" * 2)
    with pytest.raises(UserError, match=r"newstest2014\.en has 3 lines, newstest2014\.de has 2 lines"):
        source.bitext(Options(folder))
    (folder / "newstest2014.de").write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"not UTF-8.*0"):
        source.bitext(Options(folder))


def test_talks_are_found_in_their_folder_and_validation_is_left_to_be_cut(tmp_path: Path) -> None:
    source = DATA_SETS["iwslt14-de-en"]
    assert isinstance(source, ParallelCorpus)
    found = source.bitext(Options(write_iwslt(tmp_path)))
    assert list(found.held_out) == ["test"]
    english = found.held_out["test"]["en"]
    assert english[::2] == [
        f"{talks} Number"
        for talks in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    ]
    assert english[1] == "It's Fine"
    pairs = list(found.train())
    assert pairs[0] == ("A Title Nummer", "A Title Number")
    assert len(pairs) == 46
    for part in ("de", "en"):
        (tmp_path / f"valid.{part}").write_text("ready\n")
    assert source.bitext(Options(tmp_path)).held_out["val"] == {"de": ["ready"], "en": ["ready"]}


# --- the hub ------------------------------------------------------------------------------------------------------


def rows(pairs: list[tuple[str, str]], fails_after: int | None = None) -> Any:
    """A split as the library streams it."""

    class Stream:
        def __iter__(self) -> Iterator[dict[str, Any]]:
            for n, (en, de) in enumerate(pairs):
                if n == fails_after:
                    raise ConnectionError("the net is gone\nand a long story")
                yield {"translation": {"de": de, "en": en}}

    return Stream()


def on_the_hub(**changes: Any) -> dict[str, Any]:
    """The three splits, held-out ones as if read from marked-up files without care."""
    held = {
        theirs: [
            (en.strip().replace("&", "&amp;") + " ", de.replace("&", "&amp;"))
            for en, de in zip(HELD[f"{ours}.en"], HELD[f"{ours}.de"], strict=True)
        ]
        for ours, theirs in (("newstest2013", "validation"), ("newstest2014", "test"))
    }
    return {"train": rows(PAIRS), **{split: rows(pairs) for split, pairs in held.items()}} | changes


@pytest.fixture
def stripped(monkeypatch: pytest.MonkeyPatch, wmt: ParallelCorpus) -> ParallelCorpus:
    """The hashes of held-out lines without blanks at their ends, as the true ones have none."""
    import hashlib

    return small_wmt(
        monkeypatch,
        {k: hashlib.sha256(text([x.strip() for x in v])).hexdigest() for k, v in HELD.items()},
    )


def stand_in(monkeypatch: pytest.MonkeyPatch, found: Any) -> list[Any]:
    """Puts stand-ins for the hub's packages in place; returns the calls they get."""
    calls: list[Any] = []

    def load_dataset(*which: str, **how: Any) -> Any:
        calls.append((*which, how))
        if isinstance(found, Exception):
            raise found
        return found

    class HfApi:
        def dataset_info(self, name: str) -> Any:
            return SimpleNamespace(sha="b2" * 20)

    for name, what in (("datasets", load_dataset), ("huggingface_hub", HfApi)):
        module = ModuleType(name)
        setattr(module, what.__name__, what)
        monkeypatch.setitem(sys.modules, name, module)
    return calls


def test_the_hub_is_streamed_at_a_settled_revision(
    stripped: ParallelCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stand_in(monkeypatch, on_the_hub())
    found = stripped.bitext(Options())
    assert calls == [("wmt/wmt14", "de-en", {"revision": "b2" * 20, "streaming": True})]
    assert found.origin == {"kind": "hub", "id": "wmt/wmt14", "revision": "b2" * 20}
    assert found.held_out["newstest2013"]["en"][2] == "three & more"
    assert list(found.train()) == PAIRS


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"test": rows([("a", "A")])}, r"wmt/wmt14 on the hub: sha256 .* newstest2014\.en"),
        ({"validation": rows([("a\nb", "A")])}, r"a line of newstest2013\.en holds a line break"),
        (
            {"validation": rows([("a", "A")], fails_after=0)},
            r"from the hub \(the net is gone\); .*--from DIR",
        ),
        ({"test": [{"text": "?"}]}, r"cannot get wmt/wmt14 from the hub \('translation'\)"),
    ],
)
def test_a_bad_hub_is_refused_in_one_line(
    stripped: ParallelCorpus, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str
) -> None:
    stand_in(monkeypatch, on_the_hub(**changes))
    with pytest.raises(UserError, match=said) as caught:
        stripped.bitext(Options())
    assert "\n" not in str(caught.value)


def test_a_hub_out_of_reach_or_without_a_split(
    stripped: ParallelCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = on_the_hub()
    del found["train"]
    stand_in(monkeypatch, found)
    with pytest.raises(UserError, match=r"train;.*--from DIR"):
        stripped.bitext(Options())
    stand_in(monkeypatch, ConnectionError("offline"))
    with pytest.raises(UserError, match=r"\(offline\); .*repro data prepare wmt14-en-de --from DIR"):
        stripped.bitext(Options())


def test_a_net_that_goes_while_training_pairs_come(
    stripped: ParallelCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, on_the_hub(train=rows(PAIRS, fails_after=5)))
    coming = stripped.bitext(Options()).train()
    assert [next(coming) for _ in range(5)] == PAIRS[:5]
    with pytest.raises(UserError, match="the net is gone"):
        next(coming)
