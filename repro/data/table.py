"""One table a split: an Arrow data set on disk, written in bounded memory and read without a copy. Needs no torch.

A table is a folder as ``datasets.Dataset.save_to_disk`` writes it, so that ``datasets.load_from_disk`` opens it. Here
it is read through ``pyarrow``'s memory map alone. It has one record batch: each column is one array of NumPy.
"""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray[Any, np.dtype[Any]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]

DATA_FILE = "data-00000-of-00001.arrow"
BLOCK = 8192  # lines that are read or encoded at once
COPY_BYTES = 2**20


@dataclass(frozen=True)
class ColumnType:
    """The type of a column.

    Attributes:
        dtype: of a number, as NumPy names it; ``text`` for lines of text.
        shape: of a value, ``(height, width, channels)`` of a picture.
        ragged: a row is a sequence of values; else it is one value.
    """

    dtype: str
    shape: tuple[int, ...] = ()
    ragged: bool = False

    @property
    def feature(self) -> dict[str, Any]:
        """The type as ``datasets`` describes it."""
        if self == TEXT:
            return {"dtype": "large_string", "_type": "Value"}
        feature: dict[str, Any] = {"dtype": self.dtype, "_type": "Value"}
        for length in reversed(self.shape):
            feature = {"feature": feature, "length": length, "_type": "List"}
        return {"feature": feature, "_type": "LargeList"} if self.ragged else feature


TEXT = ColumnType("text")


def ids_of(vocab_size: int) -> ColumnType:
    """Rows of ids, in the smaller of ``uint16`` and ``uint32`` that holds every id of a vocabulary."""
    return ColumnType("uint16" if vocab_size <= 2**16 else "uint32", ragged=True)


class ColumnWriter:
    """Writes a column row by row, into two flat files of values and offsets that become a part of a table.

    Args:
        stem: path of the files, without their ends.
        type_: of the column.

    Attributes:
        rows: written so far.
        values: written so far; of text, bytes.
    """

    def __init__(self, stem: Path, type_: ColumnType) -> None:
        stem.parent.mkdir(parents=True, exist_ok=True)
        self.type = type_
        self.rows = self.values = 0
        self._digests = hashlib.sha256(), hashlib.sha256()
        self._paths = Path(f"{stem}.values"), Path(f"{stem}.offsets")
        self._files: tuple[IO[bytes], IO[bytes]] = self._paths[0].open("wb"), self._paths[1].open("wb")
        self._ends = [0] if type_.ragged or type_ == TEXT else []  # of rows, to be written

    def add(self, values: Array, lengths: Iterable[int] | None = None) -> None:
        """Appends rows.

        Args:
            values: of all of them, one row after another, ``(M, *shape)``.
            lengths: values of each row that ends with them, ``(N,)``; for a ragged column.
        """
        dtype = np.dtype(self.type.dtype).newbyteorder("<")
        content = np.ascontiguousarray(values, dtype).tobytes()
        self._files[0].write(content)
        self._digests[0].update(content)
        if lengths is None:
            self.rows += len(values)
            self.values += len(values)
        else:
            for length in lengths:
                self.end_row(int(length))

    def add_rows(self, rows: Sequence[Sequence[int]]) -> None:
        """Appends ragged rows of numbers."""
        self.add(np.fromiter((i for row in rows for i in row), self.type.dtype), map(len, rows))

    def add_line(self, line: str) -> None:
        """Appends a line of text, which holds no line feed."""
        content = line.encode()
        self._files[0].write(content)
        self._digests[0].update(content + b"\n")
        self.end_row(len(content))

    def end_row(self, length: int) -> None:
        """Ends a row whose values have been added."""
        self.rows += 1
        self.values += length
        self._ends.append(self.values)
        if len(self._ends) >= BLOCK:
            self._flush()

    def _flush(self) -> None:
        content = np.array(self._ends, "<i8").tobytes()
        self._files[1].write(content)
        self._digests[1].update(content)
        self._ends = []
        for file in self._files:
            file.flush()

    def lines(self) -> Iterator[str]:
        """The lines of text written so far, a block in memory at a time."""
        self._flush()
        with self._paths[0].open("rb") as values, self._paths[1].open("rb") as offsets:
            end = int.from_bytes(offsets.read(8), "little")
            while block := offsets.read(8 * BLOCK):
                edges = [end, *np.frombuffer(block, "<i8").tolist()]
                content, end = values.read(edges[-1] - edges[0]), edges[-1]
                for i in range(len(edges) - 1):
                    yield content[edges[i] - edges[0] : edges[i + 1] - edges[0]].decode()

    def close(self) -> None:
        """Closes the files; nothing may be added afterwards."""
        if not self._files[0].closed:
            self._flush()
        for file in self._files:
            file.close()

    def facts(self) -> dict[str, Any]:
        """Rows and SHA-256 of the content, for the manifest: of numbers, little-endian; of lines with their ends."""
        facts: dict[str, Any] = {"rows": self.rows, "sha256": self._digests[0].hexdigest()}
        return {**facts, "offsets_sha256": self._digests[1].hexdigest()} if self.type.ragged else facts

    def array(self, sources: dict[int, Path]) -> "pa.Array":
        """The whole column, memory-mapped; adds to ``sources`` which file is mapped at which address."""
        import pyarrow as pa

        values, offsets = (_mapped(path, sources) for path in self._paths)
        if self.type == TEXT:
            return pa.Array.from_buffers(pa.large_string(), self.rows, [None, offsets, values])
        count = self.values * int(np.prod(self.type.shape, dtype=np.int64))
        items = pa.Array.from_buffers(pa.from_numpy_dtype(np.dtype(self.type.dtype)), count, [None, values])
        for length in reversed(self.type.shape):
            items = pa.FixedSizeListArray.from_arrays(items, length)
        if not self.type.ragged:
            return items
        return pa.Array.from_buffers(pa.large_list(items.type), self.rows, [None, offsets], children=[items])


def _mapped(path: Path, sources: dict[int, Path]) -> "pa.Buffer":
    import pyarrow as pa

    if not path.stat().st_size:  # cannot be mapped
        return pa.py_buffer(b"")
    buffer = pa.memory_map(str(path)).read_buffer()
    sources[buffer.address] = path
    return buffer


class _Sink(io.BufferedWriter):
    """A file for an Arrow table. It copies the files of mapped buffers, so that their pages do not fill memory.

    Args:
        path: of the file.
        sources: files by the address where they are mapped.
    """

    def __init__(self, path: Path, sources: dict[int, Path]) -> None:
        super().__init__(io.FileIO(path, "wb"))
        self._sources = sources

    def write(self, content: "bytes | pa.Buffer") -> int:
        path = None if isinstance(content, bytes) else self._sources.get(content.address)
        if path is None or path.stat().st_size != len(content):
            return super().write(content)
        with path.open("rb") as source:
            shutil.copyfileobj(source, self, COPY_BYTES)
        return len(content)


def write_table(folder: Path, columns: Mapping[str, ColumnWriter]) -> list[Path]:
    """Writes a table from its columns, which are closed.

    Args:
        folder: of the table, made here.
        columns: by name, equally long.

    Returns:
        The files written.

    Raises:
        ValueError: columns differ in length.
    """
    import pyarrow as pa

    rows = {name: column.rows for name, column in columns.items()}
    if len(set(rows.values())) != 1:
        raise ValueError(f"columns of {folder.name} differ in length: {rows}")
    for column in columns.values():
        column.close()
    features = {name: column.type.feature for name, column in columns.items()}
    sources: dict[int, Path] = {}
    batch = pa.RecordBatch.from_arrays(
        [column.array(sources) for column in columns.values()],
        names=list(columns),
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    folder.mkdir(parents=True)
    with _Sink(folder / DATA_FILE, sources) as file:
        with pa.ipc.new_stream(pa.PythonFile(file, mode="w"), batch.schema) as stream:
            stream.write_batch(batch)
        file.flush()
        os.fsync(file.fileno())
    facts = json.dumps({name: column.facts() for name, column in columns.items()})
    state: dict[str, Any] = {
        "_data_files": [{"filename": DATA_FILE}], "_fingerprint": hashlib.sha256(facts.encode()).hexdigest()[:16],
        "_format_columns": None, "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False,
        "_split": None,
    }  # fmt: skip
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    for name, content in (("state.json", state), ("dataset_info.json", info)):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return [folder / name for name in (DATA_FILE, "state.json", "dataset_info.json")]


class Table:
    """An opened table; arrays are memory-mapped and read-only.

    Args:
        folder: of the table.

    Raises:
        ValueError: it is no such table.
    """

    def __init__(self, folder: Path) -> None:
        import pyarrow as pa

        try:
            self._batch = pa.ipc.open_stream(pa.memory_map(str(folder / DATA_FILE))).read_next_batch()
        except (OSError, StopIteration, pa.ArrowException) as error:
            raise ValueError(f"{folder.name}/{DATA_FILE} is not a readable table ({error})") from None

    def values(self, name: str) -> Array:
        """All values of a column, one row after another, ``(M, *shape)``."""
        from pyarrow import types

        array, shape = self._batch.column(name), []
        if types.is_large_list(array.type):
            array = array.values
        while types.is_fixed_size_list(array.type):
            shape.append(array.type.list_size)
            array = array.values
        flat: Array = np.from_dlpack(array)  # `to_numpy` imports pandas, which takes half a second
        return flat.reshape(-1, *shape) if shape else flat

    def offsets(self, name: str) -> Int64s:
        """The first value of each row of a ragged column, and the end of the last, ``(N + 1,)``."""
        return np.from_dlpack(self._batch.column(name).offsets).view(np.int64)

    def lines(self, name: str) -> list[str]:
        """The lines of a column of text.

        Raises:
            KeyError: there is no such column.
        """
        return self._batch.column(name).to_pylist()


def slices(values: Array, offsets: Array, indices: Array | Sequence[int]) -> list[Array]:
    """Some rows of a ragged column."""
    return [values[offsets[i] : offsets[i + 1]] for i in indices]
