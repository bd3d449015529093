"""Stores of proteins from TAPE's files, and every refusal."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from repro.data.prepare import open_store, prepare
from repro.data.sets.proteins.remote_homology import SYMBOLS
from repro.errors import UserError

RECORDS = {
    "train": [("GCTVEDRCLIG", 0), ("MZ", 1194), ("A", 7)],
    "valid": [("XU", 3)],
    "test_fold_holdout": [("OB", 4), ("WY", 5)],
}


def record(primary: str, fold: Any) -> dict[str, Any]:
    return {
        "primary": primary,
        "fold_label": fold,
        "family_label": 1,
        "evolutionary": [[0.5, 1.0], [2.0, 3.0]],
    }


def file(folder: Path, split: str, end: str = "json") -> Path:
    return folder / f"remote_homology_{split}.{end}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    where = tmp_path / "files"
    where.mkdir()
    for split, rows in RECORDS.items():
        file(where, split).write_text(json.dumps([record(*row) for row in rows]))
    return where


def quiet(line: str) -> None:
    pass


def rows(split: str, part: str) -> list[list[int]]:
    store = open_store("remote-homology", "tape")
    values = store.values(split, part)
    if part == "folds":
        return [[fold] for fold in values.tolist()]
    return [values[a:b].tolist() for a, b in pairwise(store.offsets(split, part))]


def test_ids_are_those_of_tape() -> None:
    assert len(SYMBOLS) == 30
    messages = {
        "<pad>": 0,
        "<mask>": 1,
        "<cls>": 2,
        "<sep>": 3,
        "<unk>": 4,
        "A": 5,
        "I": 13,
        "K": 14,
        "O": 18,
        "Z": 29,
    }
    assert {symbol: SYMBOLS.index(symbol) for symbol in messages} == messages


@pytest.mark.parametrize("inner", ["", "remote_homology"])
def test_lists_in_json_become_a_store(data_folder: Path, folder: Path, inner: str) -> None:
    if inner:
        (folder.parent / "outer").mkdir()
        folder = folder.rename(folder.parent / "outer" / inner).parent
    output: list[str] = []
    assert (
        prepare("remote-homology", folder, report=output.append) == data_folder / "remote-homology" / "tape"
    )
    # the published tokeniser's ids of the beginning of the sequence in its README
    assert rows("train", "residues") == [
        [2, 11, 7, 23, 25, 9, 8, 21, 7, 15, 13, 11, 3],
        [2, 16, 29, 3],
        [2, 5, 3],
    ]
    assert rows("train", "folds") == [[0], [1194], [7]]
    assert rows("val", "residues") == [[2, 27, 24, 3]]
    assert rows("test", "folds") == [[4], [5]]
    manifest = open_store("remote-homology", "tape").manifest
    assert manifest.missing_splits == ["test_family_holdout", "test_superfamily_holdout"]
    assert manifest.counts["train"] == {"examples": 3, "tokens": {"residues": 20}}
    assert output == [
        "made remote-homology/tape: test_fold_holdout 2, train 3, valid 1",
        "not available, left out: test_family_holdout, test_superfamily_holdout",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps([record("AC", 1), record("AJ", 1)]), "record 2: unknown amino acid 'J'"),
        (json.dumps([record("AC", 1195)]), "record 1: fold_label is 1195, not a number below 1,195"),
        (json.dumps([record("AC", -1)]), "record 1: fold_label is -1"),
        (json.dumps([record("AC", "a.1")]), "record 1: fold_label is 'a.1'"),
        (json.dumps([record("AC", None)]), "record 1: fold_label is None"),
        (json.dumps([record("", 1)]), "record 1: no sequence under 'primary'"),
        (json.dumps([[]]), "record 1: no sequence under 'primary'"),
        (json.dumps([record("AC", 1)])[:-1], "is not JSON"),
        (json.dumps(record("AC", 1)), "is not a list of proteins"),
        ("[]", "is not a list of proteins"),
        ("", "is not JSON"),
        ("\udcff", "is not UTF-8 at byte 0"),
    ],
)
def test_a_bad_list_is_refused(data_folder: Path, folder: Path, content: str, message: str) -> None:
    file(folder, "valid").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=f"remote_homology_valid.json.*{message}"):
        prepare("remote-homology", folder, report=quiet)
    assert not list(data_folder.rglob("manifest.json"))


def test_a_missing_file_is_named(data_folder: Path, folder: Path) -> None:
    file(folder, "test_fold_holdout").unlink()
    with pytest.raises(UserError, match=r"no remote_homology_test_fold_holdout.json.*raw release"):
        prepare("remote-homology", folder, report=quiet)
    with pytest.raises(UserError, match="no such folder"):
        prepare("remote-homology", folder / "none", report=quiet)
    with pytest.raises(UserError, match=r"\(remote_homology_train.json.*--from DIR"):
        prepare("remote-homology", report=quiet)
