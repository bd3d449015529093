"""Stores: prepared data on disk, made whole or not at all, opened read-only. Needs no torch.

A store is a folder ``<name>/<variant>`` below the data folder (``multi30k/bpe8000``). A *part* is one column
of a split (``train.en``) in three files: ``<part>.tokens.bin`` (flat ``uint16`` or ``uint32``, no special
symbols), ``<part>.offsets.bin`` (``int64``, one more than examples) and ``<part>.txt`` (the raw lines). Text for
language models (``train.text``) has tokens, offsets only where sentences are shuffled, and no raw lines. The
tokeniser lies beside them, and ``manifest.json``, written last, names the size and SHA-256 of each file. It
holds no path, host or user name.
"""

import contextlib
import dataclasses
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from repro.data.manifest import MANIFEST, Manifest
from repro.data.variants import prepare_command
from repro.errors import ReproError, UserError
from repro.paths import data_dir
from repro.record import write_atomic

Int64s = np.ndarray[Any, np.dtype[np.int64]]
Tokens = np.ndarray[Any, np.dtype[Any]]
BLOCK = 8192  # lines that are encoded at once


class Store:
    """An opened store. Arrays are memory-mapped when asked for and read-only.

    Args:
        path: the store's folder.
        manifest: its manifest.
        manifest_sha256: of the manifest file's content.
    """

    def __init__(self, path: Path, manifest: Manifest, manifest_sha256: str) -> None:
        self.path = path
        self.manifest = manifest
        self.manifest_sha256 = manifest_sha256

    @property
    def name(self) -> str:
        """Source and variant, ``wikitext-2/bytes``."""
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
        found = self.manifest.aliases.get(name, name)
        if found not in self.manifest.counts:
            there = ", ".join([*self.splits, *self.manifest.aliases])
            raise UserError(f"{self.manifest.name} has no split {name!r} here; it has: {there}")
        return found

    def part(self, split: str, part: str) -> str:
        """The common stem of the files of one column, ``train.en``; splits may be aliases."""
        if part not in self.manifest.parts:
            raise UserError(f"{self.manifest.name} has no {part!r}; it has: {', '.join(self.manifest.parts)}")
        return f"{self.split(split)}.{part}"

    def offsets(self, split: str, part: str) -> Int64s:
        """Where each example begins among the tokens, ``(N + 1,)``."""
        return self._map(f"{self.part(split, part)}.offsets.bin", np.dtype("<i8"))

    def has_offsets(self, split: str, part: str) -> bool:
        """Whether the store knows where each example begins."""
        return f"{self.part(split, part)}.offsets.bin" in self.manifest.files

    def tokens(self, split: str, part: str) -> Tokens:
        """All tokens of a column, one example after another."""
        return self._map(f"{self.part(split, part)}.tokens.bin", token_dtype(self.manifest.tokenizer["size"]))

    def lines(self, split: str, part: str) -> list[str]:
        """The raw text of a column, one string per example.

        Raises:
            UserError: the store keeps none.
        """
        file = f"{self.part(split, part)}.txt"
        if file not in self.manifest.files:
            raise UserError(f"store {self.name} keeps tokens only, not its raw text")
        content = (self.path / file).read_bytes()
        return content.decode().split("\n")[:-1]

    def _map(self, file: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        if self.manifest.files[file]["bytes"] == 0:  # an empty file cannot be mapped
            return np.zeros(0, dtype)
        return np.memmap(self.path / file, dtype, mode="r")


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """The smallest of ``uint16`` and ``uint32`` (little-endian) that holds every id."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


def store_path(name: str, variant: str) -> Path:
    return data_dir() / name / variant


def variants(name: str) -> list[str]:
    """The finished stores of a source below the data folder, sorted."""
    return sorted(p.parent.name for p in (data_dir() / name).glob(f"[!.]*/{MANIFEST}"))


def open_store(name: str, variant: str) -> Store:
    """Opens a store; checks its manifest and the size of every file, not the hashes (see :func:`verify`).

    Args:
        name: of the source.
        variant: which of its stores.

    Raises:
        UserError: missing or corrupt; one line with the command that makes it.
    """
    command = f"`{prepare_command(name, variant)}`"
    path = store_path(name, variant)
    try:
        content = (path / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if path.is_dir():
            raise UserError(
                f"store {name}/{variant} is corrupt: no {MANIFEST}; make it again: {command}"
            ) from None
        raise UserError(f"no store {name}/{variant} in the data folder; make it with: {command}") from None
    except OSError as error:
        raise UserError(f"cannot read store {name}/{variant}: {error.strerror}") from None
    try:
        store = Store(path, Manifest.from_json(content), hashlib.sha256(content).hexdigest())
        for problem in _wrong_sizes(store):
            raise ValueError(problem)
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"store {name}/{variant} is corrupt: {error}; make it again: {command}") from None
    return store


def _wrong_sizes(store: Store) -> Iterator[str]:
    for file, told in store.manifest.files.items():
        try:
            found = (store.path / file).stat().st_size
        except OSError:
            yield f"{file} is missing"
            continue
        if found != told["bytes"]:
            yield f"{file} has {found} bytes, its manifest says {told['bytes']}"


def verify(store: Store) -> None:
    """Reads every file of a store and compares its SHA-256 with the manifest.

    Raises:
        UserError: the first file that differs, with the command that makes the store again.
    """
    for file, told in store.manifest.files.items():
        try:
            with (store.path / file).open("rb") as opened:
                found = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            found = f"unreadable ({error.strerror})"
        if found != told["sha256"]:
            name, variant = store.manifest.name, store.manifest.variant
            raise UserError(
                f"store {name}/{variant} is corrupt: sha256 of {file} is {found:.16}…, its manifest says "
                f"{told['sha256']:.16}…; make it again: `{prepare_command(name, variant)}`"
            )


class StoreWriter:
    """Writes the files of a store into a temporary folder and keeps their sizes and hashes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, dict[str, Any]] = {}

    def write(self, file: str, content: bytes) -> None:
        """Writes one file."""
        write_atomic(self.folder / file, content)
        self.note(file)

    @contextlib.contextmanager
    def stream(self, file: str) -> Iterator[IO[bytes]]:
        """Writes one file bit by bit."""
        with (self.folder / file).open("wb") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        self.note(file)

    def note(self, file: str) -> None:
        """Records the size and hash of a file as it lies on disk."""
        with (self.folder / file).open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            self.files[file] = {"bytes": os.fstat(opened.fileno()).st_size, "sha256": digest}

    def write_part(self, part: str, lines: list[str], ids: list[list[int]], vocab_size: int) -> int:
        """Writes one column: raw lines, tokens and offsets. Returns the number of tokens."""
        lengths = np.fromiter((len(one) for one in ids), np.int64, len(ids))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        flat = np.fromiter((i for one in ids for i in one), token_dtype(vocab_size), int(offsets[-1]))
        self.write(f"{part}.txt", "".join(f"{line}\n" for line in lines).encode())
        self.write(f"{part}.tokens.bin", flat.tobytes())
        self.write(f"{part}.offsets.bin", offsets.astype("<i8").tobytes())
        return int(offsets[-1])

    def lines(self, part: str) -> Iterator[str]:
        """The raw lines of a column that has been written, one after another."""
        with (self.folder / f"{part}.txt").open("rb") as file:
            for raw in file:
                yield raw.decode().removesuffix("\n")

    def encode_part(
        self, part: str, encode: Callable[[list[str]], list[list[int]]], vocab_size: int
    ) -> tuple[int, int]:
        """Writes tokens and offsets of a column whose raw lines have been written, in blocks.

        Args:
            part: ``<split>.<column>``.
            encode: gives the ids of each of some lines.
            vocab_size: no id is as large.

        Returns:
            Its lines and tokens.
        """
        dtype, lines, tokens = token_dtype(vocab_size), 0, 0
        text = self.lines(part)
        with (
            self.stream(f"{part}.tokens.bin") as token_file,
            self.stream(f"{part}.offsets.bin") as offset_file,
        ):
            offset_file.write(np.zeros(1, "<i8").tobytes())
            while block := list(islice(text, BLOCK)):
                ids = encode(block)
                ends = tokens + np.cumsum(np.fromiter(map(len, ids), np.int64, len(ids)))
                token_file.write(np.fromiter((i for one in ids for i in one), dtype).tobytes())
                offset_file.write(ends.astype("<i8").tobytes())
                lines, tokens = lines + len(ids), int(ends[-1])
        return lines, tokens


def make_store(
    name: str, variant: str, fill: Callable[[StoreWriter], Manifest], is_good: Callable[[], bool]
) -> Path:
    """Makes a store in a temporary folder beside its place and moves it there in one step.

    Two processes at once: the first to finish wins, the other keeps what the winner made. A store that is
    there but not good is replaced.

    Args:
        name: of the source.
        variant: which of its stores.
        fill: writes every file and returns the manifest, which is written last.
        is_good: whether the store at the final place can be kept.

    Returns:
        The store's folder.
    """
    final = store_path(name, variant)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{variant}.", dir=final.parent))
    except OSError as error:
        raise UserError(
            f"cannot write {final.parent}: {error.strerror}; set REPRO_DATA to another folder"
        ) from None
    try:
        writer = StoreWriter(temporary)
        manifest = dataclasses.replace(fill(writer), files=writer.files)
        writer.write(MANIFEST, manifest.to_json())
        temporary.chmod(0o755)
        _move_in(temporary, final, is_good)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final


def _move_in(temporary: Path, final: Path, is_good: Callable[[], bool]) -> None:
    for _ in range(5):
        with contextlib.suppress(OSError):  # the place is taken
            os.rename(temporary, final)
            return
        if is_good():
            return
        discarded = Path(tempfile.mkdtemp(prefix=f".{final.name}.old.", dir=final.parent))
        with contextlib.suppress(OSError):  # another process has just moved it away
            os.rename(final, discarded / "store")
        shutil.rmtree(discarded, ignore_errors=True)
    raise ReproError(
        f"cannot move the new store to {final}; delete what lies there and run the same command again"
    )
