"""Tables: every type of column is written in blocks and read back as one array, here and by ``datasets``."""

import hashlib
import pickle
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from repro.data import table
from repro.data.store import StoreWriter
from repro.data.table import TEXT, ColumnType, ColumnWriter, Table, ids_of, write_table
from repro.data.tokenizers.tokenizer import ByteBpe

LINES = ["a line", "", "a\u2028line \x0c of one", "é"]
IDS = [[5, 65_535], [], [7], [8, 9, 10]]
PICTURES = np.arange(4 * 2 * 3 * 1, dtype=np.uint8).reshape(4, 2, 3, 1)
FRAMES = [np.full((n, 5), n, np.float16) for n in (1, 3, 0, 2)]


def written(folder: Path) -> Path:
    """A table of a column of each type, four rows."""
    types = {
        "text": TEXT,
        "ids": ids_of(2**16),
        "pictures": ColumnType("uint8", (2, 3, 1)),
        "frames": ColumnType("float16", (5,), ragged=True),
        "labels": ColumnType("uint8"),
    }
    columns = {name: ColumnWriter(folder / "parts" / name, type_) for name, type_ in types.items()}
    for line in LINES:
        columns["text"].add_line(line)
    columns["ids"].add_rows(IDS[:2])
    columns["ids"].add_rows(IDS[2:])
    for picture in PICTURES:
        columns["pictures"].add(picture[None])
    for frames in FRAMES:
        columns["frames"].add(frames, [len(frames)])
    columns["labels"].add(np.arange(4))
    write_table(folder / "train", columns)
    return folder / "train"


def test_columns_are_read_as_they_were_written(tmp_path: Path) -> None:
    read = Table(written(tmp_path))
    assert read.lines("text") == LINES
    ids, offsets = read.values("ids"), read.offsets("ids")
    assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == IDS
    assert (ids.dtype, offsets.dtype) == (np.dtype("<u2"), np.dtype("<i8"))
    assert np.array_equal(read.values("pictures"), PICTURES)
    assert np.array_equal(read.values("frames"), np.concatenate(FRAMES))
    assert read.offsets("frames").tolist() == [0, 1, 4, 4, 6]
    assert read.values("labels").tolist() == [0, 1, 2, 3]
    for name in ("ids", "pictures", "frames", "labels"):
        values = read.values(name)
        assert not values.flags.owndata, "it would be a copy"
        assert not values.flags.writeable


def test_the_library_reads_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.load_from_disk(str(written(tmp_path)))
    assert rows["text"][:] == LINES
    assert rows["ids"][:] == IDS
    assert rows[2]["pictures"] == PICTURES[2].tolist()
    assert [len(frames) for frames in rows["frames"]] == [1, 3, 0, 2]
    assert rows.features["ids"] == datasets.LargeList(datasets.Value("uint16"))


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_lines_may_be_read_while_the_column_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(table, "BLOCK", block)
    column = ColumnWriter(tmp_path / "a", TEXT)
    assert list(column.lines()) == []
    for line in LINES:
        column.add_line(line)
    assert list(column.lines()) == LINES
    column.add_line("more")
    assert list(column.lines()) == [*LINES, "more"]
    content = "".join(f"{line}\n" for line in [*LINES, "more"]).encode()
    assert column.facts() == {"rows": 5, "sha256": hashlib.sha256(content).hexdigest()}


def test_columns_of_different_lengths_are_refused(tmp_path: Path) -> None:
    columns = {name: ColumnWriter(tmp_path / name, TEXT) for name in ("a", "b")}
    columns["a"].add_line("one")
    with pytest.raises(ValueError, match=r"train differ in length: .'a': 1, 'b': 0"):
        write_table(tmp_path / "train", columns)


@pytest.mark.parametrize("content", [b"", b"no arrow", None])
def test_what_is_no_table_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / table.DATA_FILE).write_bytes(content)
    with pytest.raises(ValueError, match="is not a readable table"):
        Table(tmp_path)


def test_the_smaller_type_that_holds_every_id_and_empty_rows(tmp_path: Path) -> None:
    assert (ids_of(2**16).dtype, ids_of(2**16 + 1).dtype) == ("uint16", "uint32")
    writer = StoreWriter(tmp_path)
    ids: Any = {"x": [70_000], "": []}
    tokenizer = cast(
        ByteBpe, SimpleNamespace(size=70_001, encode_batch=lambda lines: [ids[line] for line in lines])
    )
    text = writer.text("a", "en")
    text.add_line("x")
    text.add_line("")
    assert writer.encode_split("a", ["en"], tokenizer) == {"examples": 2, "tokens": {"en": 1}}
    writer.close()
    assert sorted(writer.files) == ["a/data-00000-of-00001.arrow", "a/dataset_info.json", "a/state.json"]
    read = Table(tmp_path / "a")
    assert (read.values("en").tolist(), read.offsets("en").tolist()) == ([70_000], [0, 1, 1])
    assert read.lines("en_text") == ["x", ""]
    assert [path.name for path in tmp_path.iterdir()] == ["a"], "the parts are gone"


def test_a_store_is_small_in_a_pickle(numbers_store: Path) -> None:
    from repro.data.prepare import open_store

    store = open_store("numbers-en-de", "bpe300-n300")
    tokens = store.values("train", "en")
    content = pickle.dumps(store)
    assert len(content) < 20_000
    assert np.array_equal(pickle.loads(content).values("train", "en"), tokens)
