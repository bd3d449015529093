"""Stores: prepared data on disk. How a store is written in one atomic step, opened read-only, and verified.

A store is a folder ``<name>/<variant>`` below the data folder (``multi30k/bpe8000``) with a table for each split
(:mod:`repro.data.table`), the tokeniser, and ``manifest.json``, written last, which names the size and SHA-256 of each
file. A *part* is a column of numbers; its raw lines, where they are kept, are the column ``<part>_text``. It holds no
path, host or user name. Needs no torch.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro import __version__
from repro.data import table
from repro.data.packed import sha256_of_file
from repro.data.table import TEXT, Array, ColumnType, ColumnWriter, Int64s, Table, ids_of, write_table
from repro.errors import UserError
from repro.files import write_atomic, writing
from repro.paths import data_dir

if TYPE_CHECKING:
    from repro.data.tokenizers.loading import AnyTokenizer

MANIFEST = "manifest.json"
STORE_SCHEMA = 2  # 1 had a file for each column


@dataclass
class Manifest:
    """The description of a store, kept in the store.

    Attributes:
        name: of the data set.
        variant: how it was tokenised, ``bpe8000``.
        title: of the data set.
        licence: under which terms the data may be used.
        source: how it was obtained: ``kind`` (hub, files, generated), ``id``, ``revision`` (None: unpinned).
        parts: columns of each split (languages).
        aliases: other names of splits, ``{"test": "test_2016_flickr"}``.
        missing_splits: splits of the data set that were not available.
        counts: ``{split: {"examples": n, "tokens": {part: n}}}``, end symbols not counted.
        tokenizer: ``kind``, ``size``, ``file``, ``sha256``.
        row: what a row of the text's column is, ``document``, ``sentence`` or ``split``; empty for other data.
        columns: ``{table: {column: {"rows": n, "sha256": hex}}}``: the hash of the content, whatever file holds it.
        files: ``{file: {"bytes": n, "sha256": hex}}``.
    """

    name: str
    variant: str
    title: str
    licence: str
    source: dict[str, Any]
    parts: list[str]
    aliases: dict[str, str]
    missing_splits: list[str]
    counts: dict[str, dict[str, Any]]
    tokenizer: dict[str, Any]
    row: str = ""
    columns: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    package_version: str = __version__
    schema_version: int = STORE_SCHEMA

    def to_json(self) -> bytes:
        """The manifest with a SHA-256 over itself, so that a damaged one is noticed."""
        body = dataclasses.asdict(self)
        body["self_sha256"] = _digest_of(body)
        return (json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> "Manifest":
        """Reads a manifest.

        Raises:
            ValueError: not a manifest of this schema, or changed since it was written; the message states which.
        """
        try:
            body = json.loads(content)
        except ValueError:
            raise ValueError(f"{MANIFEST} is not JSON") from None
        if (version := body.get("schema_version")) != STORE_SCHEMA:
            raise ValueError(f"another version made it: schema_version is {version!r}, not {STORE_SCHEMA}")
        if body.pop("self_sha256", None) != _digest_of(body):
            raise ValueError(f"{MANIFEST} was changed after it was written")
        return cls(**body)


def _digest_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def store_path(name: str, variant: str) -> Path:
    """The folder of a store."""
    return data_dir() / name / variant


def variants(name: str) -> list[str]:
    """The finished stores of a data set below the data folder, sorted."""
    return sorted(p.parent.name for p in (data_dir() / name).glob(f"[!.]*/{MANIFEST}"))


_PARTS = ".columns"  # where columns are written before they become tables


def text_of(part: str) -> str:
    """The name of the column with a part's raw lines."""
    return f"{part}_text"


class Store:
    """An opened store. Cheap to send to a worker process, which opens the tables itself.

    Args:
        path: the store's folder.
        manifest: its manifest.
        manifest_sha256: of the manifest file's content.
        command: makes the store, for messages.
    """

    def __init__(self, path: Path, manifest: Manifest, manifest_sha256: str, command: str) -> None:
        self.path = path
        self.manifest = manifest
        self.manifest_sha256 = manifest_sha256
        self.command = command
        self._tables: dict[str, Table] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tables": {}}

    @property
    def name(self) -> str:
        """Data set and variant, ``wikitext-2/bytes``."""
        return f"{self.manifest.name}/{self.manifest.variant}"

    @property
    def splits(self) -> list[str]:
        """Names of the splits, aliases not among them."""
        return list(self.manifest.counts)

    @property
    def tokenizer_path(self) -> Path:
        return self.path / self.manifest.tokenizer["file"]

    def split(self, name: str) -> str:
        """The split behind a name or an alias.

        Raises:
            UserError: no such split; names those there are.
        """
        split = self.manifest.aliases.get(name, name)
        if split not in self.manifest.counts:
            names = ", ".join([*self.splits, *self.manifest.aliases])
            raise UserError(f"{self.manifest.name} has no split {name!r} here; it has: {names}")
        return split

    def table(self, name: str) -> Table:
        """The table of a split, or another table of that name."""
        if name not in self.manifest.columns:
            name = self.split(name)
        if name not in self._tables:
            try:
                self._tables[name] = Table(self.path / name)
            except ValueError as error:
                raise _corrupt(self.name, error, self.command) from None
        return self._tables[name]

    def part(self, name: str) -> str:
        """Checks that the store has a part, such as a language.

        Raises:
            UserError: no such part; names those there are.
        """
        if name not in self.manifest.parts:
            raise UserError(f"{self.manifest.name} has no {name!r}; it has: {', '.join(self.manifest.parts)}")
        return name

    def values(self, split: str, part: str) -> Array:
        """All values of a column, one row after another, ``(M, *shape)``; tokens of a text."""
        return self.table(split).values(self.part(part))

    def offsets(self, split: str, part: str) -> Int64s:
        """The first value of each row of a column, and the end of the last, ``(N + 1,)``."""
        return self.table(split).offsets(self.part(part))

    def rows(self, split: str, part: str, indices: Array | Sequence[int]) -> list[Array]:
        """Some rows of a ragged column, ``(L_i, *shape)`` each."""
        return table.slices(self.values(split, part), self.offsets(split, part), indices)

    def lines(self, split: str, part: str) -> list[str]:
        """The raw text of a column, one string per example.

        Raises:
            UserError: the store keeps none.
        """
        try:
            return self.table(split).lines(text_of(self.part(part)))
        except KeyError:
            raise UserError(f"store {self.name} keeps tokens only, not its raw text") from None


def open_store(name: str, variant: str, command: str) -> Store:
    """Opens a store; checks its manifest and the size of every file, not the hashes (see :func:`verify`).

    Args:
        name: of the data set.
        variant: which of its stores.
        command: makes the store, for messages.

    Raises:
        UserError: missing, corrupt or of an older version; one line with the command.
    """
    path = store_path(name, variant)
    if not path.is_dir():
        raise UserError(f"no store {name}/{variant} in the data folder; make it with: `{command}`")
    try:
        content = (path / MANIFEST).read_bytes()
        store = Store(path, Manifest.from_json(content), hashlib.sha256(content).hexdigest(), command)
        for file, entry in store.manifest.files.items():
            size = (path / file).stat().st_size if (path / file).is_file() else None
            if size != entry["bytes"]:
                raise ValueError(f"{file} has {size} bytes, its manifest states {entry['bytes']}")
    except OSError as error:
        raise _corrupt(f"{name}/{variant}", f"{MANIFEST}: {error.strerror}", command) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _corrupt(f"{name}/{variant}", error, command) from None
    return store


def _corrupt(name: str, problem: object, command: str) -> UserError:
    return UserError(f"store {name} cannot be used: {problem}; make it again: `{command}`")


def verify(store: Store) -> None:
    """Reads every file of a store and compares its SHA-256 with the manifest.

    Raises:
        UserError: the first file that differs, with the command that makes the store again.
    """
    for file, entry in store.manifest.files.items():
        try:
            digest = sha256_of_file(store.path / file)
        except OSError as error:
            digest = f"unreadable ({error.strerror})"
        if digest != entry["sha256"]:
            problem = f"sha256 of {file} is {digest:.16}…, its manifest states {entry['sha256']:.16}…"
            raise _corrupt(store.name, problem, store.command)


class StoreWriter:
    """Writes the tables and other files of a store into a folder, and keeps their sizes and hashes.

    Attributes:
        files: sizes and hashes of the finished files.
        columns: rows and hashes of the columns of each table, once :meth:`close` has written them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, dict[str, Any]] = {}
        self.columns: dict[str, dict[str, dict[str, Any]]] = {}
        self._tables: dict[str, dict[str, ColumnWriter]] = {}

    @property
    def splits(self) -> list[str]:
        """Names of the tables begun so far."""
        return list(self._tables)

    # --- columns of tables

    def column(self, split: str, name: str, type_: ColumnType) -> ColumnWriter:
        """A column of the table of a split, to be written."""
        columns = self._tables.setdefault(split, {})
        columns[name] = ColumnWriter(self.folder / _PARTS / split / name, type_)
        return columns[name]

    def text(self, split: str, part: str) -> ColumnWriter:
        """The column of a part's raw lines, to be written."""
        return self.column(split, text_of(part), TEXT)

    def lines(self, split: str, part: str) -> Iterator[str]:
        """The raw lines of a part that have been written, a block in memory at a time."""
        return self._tables[split][text_of(part)].lines()

    def encode_split(self, split: str, parts: Sequence[str], tokenizer: "AnyTokenizer") -> dict[str, Any]:
        """Writes the tokens of parts whose raw lines have been written, block by block.

        Args:
            split: of the columns.
            parts: the columns.
            tokenizer: turns lines into ids.

        Returns:
            Its examples and the tokens of each column, for the manifest.
        """
        for part in parts:
            column, text = self.column(split, part, ids_of(tokenizer.size)), self.lines(split, part)
            while block := list(islice(text, table.BLOCK)):
                column.add_rows(tokenizer.encode_batch(block))
        columns = self._tables[split]
        return {"examples": columns[parts[0]].rows, "tokens": {part: columns[part].values for part in parts}}

    # --- other files

    def copy(self, path: Path, file: str) -> None:
        """Copies a file."""
        shutil.copyfile(path, self.folder / file)
        self._note([self.folder / file])

    def write_tokenizer(self, tokenizer: "AnyTokenizer") -> dict[str, Any]:
        """Writes the tokeniser's file; returns its description for the manifest."""
        file = f"tokenizer{tokenizer.suffix}"
        tokenizer.save(self.folder / file)
        self._note([self.folder / file])
        return {"kind": tokenizer.kind, "size": tokenizer.size, "file": file, "sha256": tokenizer.sha256}

    def close(self) -> None:
        """Makes tables of the columns."""
        for name, columns in self._tables.items():
            self._note(write_table(self.folder / name, columns))
            self.columns[name] = {key: column.facts() for key, column in columns.items()}
            shutil.rmtree(self.folder / _PARTS / name)
        shutil.rmtree(self.folder / _PARTS, ignore_errors=True)

    def abandon(self) -> None:
        """Closes the files of columns of a store that is given up."""
        for columns in self._tables.values():
            for column in columns.values():
                with contextlib.suppress(OSError):  # a full disk
                    column.close()

    def _note(self, paths: Iterable[Path]) -> None:
        for path in paths:
            name = path.relative_to(self.folder).as_posix()
            self.files[name] = {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)}


def make_store(
    name: str, variant: str, fill: Callable[[StoreWriter], Manifest], is_good: Callable[[], bool]
) -> Path:
    """Makes a store in a temporary folder beside its place and moves it there in one step.

    Two processes at once: the first to finish wins, the other keeps what the winner made. A store that is
    there but not good is replaced.

    Args:
        name: of the data set.
        variant: which of its stores.
        fill: writes every column and file and returns the manifest, which is written last.
        is_good: whether the store at the final place can be kept.

    Returns:
        The store's folder.
    """
    final = store_path(name, variant)
    with writing(final.parent):
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{variant}.", dir=final.parent))
    writer = StoreWriter(temporary)
    try:
        manifest = fill(writer)
        with writing(temporary):
            writer.close()
        manifest = dataclasses.replace(manifest, files=writer.files, columns=writer.columns)
        write_atomic(temporary / MANIFEST, manifest.to_json())
        temporary.chmod(0o755)
        with writing(final):
            _move_in(temporary, final, is_good)
    finally:
        writer.abandon()
        shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):  # it is not empty
            final.parent.rmdir()
    return final


def _move_in(temporary: Path, final: Path, is_good: Callable[[], bool]) -> None:
    for _ in range(3):  # another process may do the same
        with contextlib.suppress(OSError):  # the place is taken
            os.rename(temporary, final)
            return
        if is_good():
            return
        shutil.rmtree(final, ignore_errors=True)
    os.rename(temporary, final)
