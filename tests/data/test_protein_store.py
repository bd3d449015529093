"""Stores of proteins from TAPE's files in both their forms, and every refusal."""

import json
import os
import pickle
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np
import pytest

from repro.data.protein_store import SYMBOLS
from repro.data.sources import SOURCES, prepare
from repro.data.store import open_store
from repro.errors import UserError

SOURCE = SOURCES["remote-homology"]
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


class Lmdb:
    """As much of the package `lmdb` as is needed, over a pickled dictionary."""

    Error = OSError

    def __init__(self, path: str, subdir: bool, readonly: bool, lock: bool) -> None:
        assert subdir
        assert readonly
        self.content: dict[bytes, bytes] = pickle.loads((Path(path) / "data.mdb").read_bytes())

    open = classmethod(lambda cls, *args, **kwargs: cls(*args, **kwargs))

    def __enter__(self) -> "Lmdb":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def begin(self) -> "Lmdb":
        return self

    def get(self, key: bytes) -> bytes | None:
        return self.content.get(key)


def write_lmdb(path: Path, records: list[Any], count: Any = None) -> None:
    path.mkdir()
    content = {str(i).encode(): pickle.dumps(one, protocol=3) for i, one in enumerate(records)}
    if count == "half":
        content[b"0"], count = content[b"0"][:60], None
    content[b"num_examples"] = pickle.dumps(len(records) if count is None else count)
    (path / "data.mdb").write_bytes(pickle.dumps(content))


def quiet(line: str) -> None:
    pass


def rows(split: str, part: str) -> list[list[int]]:
    store = open_store("remote-homology", "tape")
    tokens, offsets = store.tokens(split, part), store.offsets(split, part)
    return [tokens[a:b].tolist() for a, b in pairwise(offsets)]


def test_ids_are_those_of_tape() -> None:
    assert len(SYMBOLS) == 30
    told = {
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
    assert {symbol: SYMBOLS.index(symbol) for symbol in told} == told


@pytest.mark.parametrize("inner", ["", "remote_homology"])
def test_lists_in_json_become_a_store(data_folder: Path, folder: Path, inner: str) -> None:
    if inner:
        (folder.parent / "outer").mkdir()
        folder = folder.rename(folder.parent / "outer" / inner).parent
    said: list[str] = []
    assert prepare("remote-homology", folder, say=said.append) == data_folder / "remote-homology" / "tape"
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
    assert said == ["made remote-homology/tape: test_fold_holdout 2, train 3, valid 1"]


def test_lmdb_folders_become_the_same_store(
    data_folder: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", Lmdb)  # type: ignore[arg-type]
    file(folder, "train").unlink()
    records = [{**record(s, np.int64(fold)), "evolutionary": np.ones((2, 3))} for s, fold in RECORDS["train"]]
    write_lmdb(file(folder, "train", "lmdb"), records)
    prepare("remote-homology", folder, say=quiet)
    assert rows("train", "residues")[1:] == [[2, 16, 29, 3], [2, 5, 3]]
    assert rows("train", "folds") == [[0], [1194], [7]]


def test_without_the_package_json_is_offered(
    data_folder: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    file(folder, "train").unlink()
    write_lmdb(file(folder, "train", "lmdb"), [])
    with pytest.raises(UserError, match="pip install lmdb; or give TAPE's files in JSON"):
        prepare("remote-homology", folder, say=quiet)


class Evil:
    """What a pickle must not be able to do."""

    def __reduce__(self) -> Any:
        return os.system, ("true",)


@pytest.mark.parametrize(
    ("records", "count", "said"),
    [
        ([Evil()], None, "'0' is damaged or not TAPE's .it names posix.system"),
        ([SimpleNamespace()], None, "it names types.SimpleNamespace"),
        ([record("A", 1)], 2, "it has no '1'"),
        ([record("A", 1)], "two", "cannot be interpreted as an integer"),
        ([record("A" * 40, 1)], "half", "'0' is damaged or not TAPE's"),
        ([5], None, "record 1: no sequence under 'primary'"),
    ],
)
def test_a_bad_lmdb_folder_is_refused(
    data_folder: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: list[Any],
    count: Any,
    said: str,
) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", Lmdb)  # type: ignore[arg-type]
    file(folder, "valid").unlink()
    write_lmdb(file(folder, "valid", "lmdb"), records, count)
    with pytest.raises(UserError, match=rf"remote_homology_valid.lmdb.*{said}"):
        prepare("remote-homology", folder, say=quiet)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps([record("AC", 1), record("AJ", 1)]), "record 2: unknown amino acid 'J'"),
        (json.dumps([record("AC", 1195)]), "record 1: fold_label is 1195, not a number below 1,195"),
        (json.dumps([record("AC", -1)]), "record 1: fold_label is -1"),
        (json.dumps([record("AC", "a.1")]), "record 1: fold_label is 'a.1'"),
        (json.dumps([record("AC", None)]), "record 1: fold_label is None"),
        (json.dumps([record("", 1)]), "record 1: no sequence under 'primary'"),
        (json.dumps([[]]), "record 1: no sequence under 'primary'"),
        (json.dumps([record("AC", 1)])[:-1], "is not a whole list in JSON"),
        (json.dumps([record("AC", 1)])[:-5], "is not JSON"),
        (json.dumps(record("AC", 1)), "is not a whole list in JSON"),
        (json.dumps([record("AC", 1)])[:-1] + json.dumps([record("AC", 1)]), "is not a whole list in JSON"),
        ("[", "is not JSON"),
        ("", "is not a whole list in JSON, see byte 0"),
        ("\udcff", "is not UTF-8 at byte 0"),
    ],
)
def test_a_bad_list_is_refused(data_folder: Path, folder: Path, content: str, said: str) -> None:
    file(folder, "valid").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=f"remote_homology_valid.json.*{said}"):
        prepare("remote-homology", folder, say=quiet)
    assert not list(data_folder.rglob("manifest.json"))


def test_a_missing_file_is_named(data_folder: Path, folder: Path) -> None:
    file(folder, "test_fold_holdout").unlink()
    with pytest.raises(UserError, match=r"no remote_homology_test_fold_holdout.json.* and no .*lmdb"):
        prepare("remote-homology", folder, say=quiet)
    with pytest.raises(UserError, match="no such folder"):
        prepare("remote-homology", folder / "none", say=quiet)
    with pytest.raises(UserError, match=r"get its files \(remote_homology_train.json.*--from DIR"):
        prepare("remote-homology", say=quiet)
