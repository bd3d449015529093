"""Stores of trees: generated at a size, from the published files, and every refusal."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from repro.data.packed import TextFile
from repro.data.prepare import ensure_generated, list_sources, open_store, prepare, verify
from repro.data.sets.listops import listops
from repro.data.sets.listops.listops import read_trees
from repro.data.sets.listops.trees import TreeRules, TreeSet
from repro.errors import UserError

HEAD = "Source\tTarget"
FILES = {"train": "basic_train.tsv", "val": "basic_val.tsv", "test": "basic_test.tsv"}
LINES = {
    "train": ["( ( ( [MAX 3 ) 4 ) ] )\t4", "7\t7"],
    "val": ["( ( ( [SM 9 ) 2 ) ] )\t1"],
    "test": ["( ( ( [MED 1 ) 2 ) ] )\t1"],
}


def content(lines: list[str]) -> bytes:
    """Formats rows as Python's csv does."""
    return "".join(f"{line}\r\n" for line in lines).encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    where = tmp_path / "files"
    where.mkdir()
    for split, lines in LINES.items():
        (where / FILES[split]).write_bytes(content([HEAD, *lines]))
    return where


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of a few tokens, and few of them."""
    rules = TreeRules(max_depth=4, max_args=4, min_length=5, max_length=40)
    monkeypatch.setattr(listops, "TreeSet", lambda train=70: TreeSet(train, 10, rules))


def quiet(line: str) -> None:
    pass


def test_published_files_become_a_store(data_folder: Path, folder: Path) -> None:
    output: list[str] = []
    path = prepare("listops", folder, report=output.append)
    assert path == data_folder / "listops" / "lra"
    assert output == [
        "made listops/lra: test 1, train 2, val 1",
        "removed from the files: 7 carriage returns at line ends",
    ]
    store = open_store("listops", "lra")
    assert store.values("train", "trees").tolist() == [12, 4, 5, 15, 8]
    assert store.offsets("train", "trees").tolist() == [0, 4, 5]
    assert store.values("train", "values").tolist() == [4, 7]
    assert store.values("test", "values").tolist() == [1]
    assert store.manifest.source["kind"] == "files"
    assert sorted(store.manifest.source["sha256"]) == ["test", "train", "val"]
    assert str(folder) not in (path / "manifest.json").read_text()


def test_packed_files_will_do(data_folder: Path, folder: Path) -> None:
    plain = folder / FILES["train"]
    (folder / f"{FILES['train']}.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    prepare("listops", folder, report=quiet)
    assert open_store("listops", "lra").manifest.counts["train"] == {"examples": 2, "tokens": {"trees": 5}}


@pytest.mark.usefixtures("_short")
def test_generated_stores_share_their_held_out_trees(data_folder: Path) -> None:
    prepare("listops", size=20, report=quiet)
    assert ensure_generated("listops", "")  # the default, although another is there
    assert not ensure_generated("listops", "lra")
    small, large = open_store("listops", "lra-n20"), open_store("listops", "lra")
    assert {name: n["examples"] for name, n in small.manifest.counts.items()} == {
        "train": 20,
        "val": 10,
        "test": 10,
    }
    assert large.manifest.counts["train"]["examples"] == 70
    for split in ("val", "test"):
        np.testing.assert_array_equal(small.values(split, "trees"), large.values(split, "trees"))
    n = len(small.values("train", "trees"))
    np.testing.assert_array_equal(small.values("train", "trees"), large.values("train", "trees")[:n])
    assert small.manifest.source["settings"]["rules"]["max_depth"] == 4
    assert verify("listops") == ["lra", "lra-n20"]


@pytest.mark.usefixtures("_short")
def test_files_do_not_silently_lose_to_generated_trees(data_folder: Path, folder: Path) -> None:
    prepare("listops", report=quiet)
    with pytest.raises(UserError, match="is already prepared, from generated data; delete"):
        prepare("listops", folder, report=quiet)


def test_files_have_their_own_size(data_folder: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="--size 5"):
        prepare("listops", folder, size=5, report=quiet)


def test_the_list_tells_both_ways() -> None:
    assert {one["name"]: one["obtained"] for one in list_sources()}["listops"] == "generated or --from"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("( ( ( [MAX 3 ) 4 ) )\t4", "line 3: .* is not a tree and its value"),
        ("( ( ( [MAX 3 ) 12 ) ] )\t4", "line 3.* 12 "),
        ("( ( ( [MAX 3 ) 4 ) ] )\t", "line 3: .* is not a tree"),
        ("( ( ( [MAX 3 ) 4 ) ] )\tx", "line 3: .* is not a tree"),
        ("( ( ( [MAX 3 ) 4 ) ] )", "line 3: .* is not a tree"),
        ("", "line 3: '' is not a tree"),
    ],
)
def test_a_bad_line_is_named(data_folder: Path, folder: Path, line: str, message: str) -> None:
    (folder / FILES["val"]).write_bytes(content([HEAD, LINES["val"][0], line, LINES["val"][0]]))
    with pytest.raises(UserError, match=f"basic_val.tsv, {message}"):
        prepare("listops", folder, report=quiet)
    assert not list(data_folder.rglob("manifest.json"))


def test_a_missing_or_empty_file_is_named(data_folder: Path, folder: Path) -> None:
    (folder / FILES["test"]).write_bytes(content([HEAD]))
    with pytest.raises(UserError, match=r"basic_test.tsv:"):
        prepare("listops", folder, report=quiet)
    (folder / FILES["test"]).write_bytes(b"")
    with pytest.raises(UserError, match=r"basic_test.tsv, line 1:"):
        prepare("listops", folder, report=quiet)
    (folder / FILES["test"]).unlink()
    with pytest.raises(UserError, match=r"no basic_test.tsv"):
        prepare("listops", folder, report=quiet)
    with pytest.raises(UserError, match="no such folder"):
        prepare("listops", folder / "none", report=quiet)


def test_columns_are_found_by_name_and_the_last_line_needs_no_end(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_bytes(b"id\tTarget\tSource\n1\t4\t[MAX 3 4 ]\n2\t5\t5")
    trees = read_trees(TextFile(tmp_path / "x.tsv"))
    assert trees.tokens.tolist() == [12, 4, 5, 15, 6]
    assert trees.values.tolist() == [4, 5]
