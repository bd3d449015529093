"""Stores: prepared data on disk, opened read-only. Needs no torch.

A store is a folder ``<name>/<variant>`` below the data folder (``multi30k/bpe8000``). A *part* is one column
of a split (``train.en``) in three files: ``<part>.tokens.bin`` (flat ``uint16`` or ``uint32``, no special
symbols), ``<part>.offsets.bin`` (``int64``, one more than examples) and ``<part>.txt`` (the raw lines). Text for
language models (``train.text``) has tokens, offsets only where sentences are shuffled, ``documents.bin`` (offsets of
documents) where these are known, and no raw lines. The tokeniser lies beside them, and ``manifest.json``, written
last, names the size and SHA-256 of each file. It holds no path, host or user name.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from repro.data.registry import prepare_command
from repro.data.store.manifest import Manifest
from repro.data.store.packed import sha256_of_file
from repro.data.store.variants import MANIFEST, store_path
from repro.errors import UserError

Int64s = np.ndarray[Any, np.dtype[np.int64]]
Tokens = np.ndarray[Any, np.dtype[Any]]


class Store:
    """An opened store. Arrays are memory-mapped on access and read-only.

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

    def part(self, split: str, part: str) -> str:
        """The common stem of the files of one column, ``train.en``; splits may be aliases."""
        if part not in self.manifest.parts:
            raise UserError(f"{self.manifest.name} has no {part!r}; it has: {', '.join(self.manifest.parts)}")
        return f"{self.split(split)}.{part}"

    def offsets(self, split: str, part: str, of: str = "offsets") -> Int64s:
        """Offsets of the examples, or ``documents``, among the tokens, ``(N + 1,)``."""
        return self._map(f"{self.part(split, part)}.{of}.bin", np.dtype("<i8"))

    def has_offsets(self, split: str, part: str, of: str = "offsets") -> bool:
        """Whether the store knows where each of them begins."""
        return f"{self.part(split, part)}.{of}.bin" in self.manifest.files

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


def open_store(name: str, variant: str) -> Store:
    """Opens a store; checks its manifest and the size of every file, not the hashes (see :func:`verify`).

    Args:
        name: of the data set.
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
    for file, entry in store.manifest.files.items():
        try:
            size = (store.path / file).stat().st_size
        except OSError:
            yield f"{file} is missing"
            continue
        if size != entry["bytes"]:
            yield f"{file} has {size} bytes, its manifest says {entry['bytes']}"


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
            command = prepare_command(store.manifest.name, store.manifest.variant)
            raise UserError(
                f"store {store.name} is corrupt: sha256 of {file} is {digest:.16}…, its manifest says "
                f"{entry['sha256']:.16}…; make it again: `{command}`"
            )
