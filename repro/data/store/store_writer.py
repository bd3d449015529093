"""Writes a store: its files, and the whole of it in one atomic step. Needs no torch."""

import contextlib
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from repro.data.store.manifest import Manifest
from repro.data.store.packed import sha256_of_file
from repro.data.store.store import token_dtype
from repro.data.store.variants import MANIFEST, store_path
from repro.errors import ReproError, UserError
from repro.files import write_atomic

if TYPE_CHECKING:
    from repro.data.tokenizers.tokenizer import AnyTokenizer

BLOCK = 8192  # lines that are encoded at once


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
        """Records the size and hash of a file on disk."""
        path = self.folder / file
        self.files[file] = {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)}

    def write_tokenizer(self, tokenizer: "AnyTokenizer") -> dict[str, Any]:
        """Writes the tokeniser's file; returns its description for the manifest."""
        file = f"tokenizer{tokenizer.suffix}"
        tokenizer.save(self.folder / file)
        self.note(file)
        return {"kind": tokenizer.kind, "size": tokenizer.size, "file": file, "sha256": tokenizer.sha256}

    def write_offsets(self, part: str, lengths: Sequence[int]) -> None:
        """Writes where each example of a column begins, from how long each is."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        self.write(f"{part}.offsets.bin", offsets.astype("<i8").tobytes())

    def write_ids(self, part: str, rows: Sequence[Sequence[int]]) -> int:
        """Writes tokens, 16 bits each, and offsets of a column. Returns the number of tokens."""
        flat = np.fromiter((i for row in rows for i in row), "<u2")
        self.write(f"{part}.tokens.bin", flat.tobytes())
        self.write_offsets(part, [len(row) for row in rows])
        return len(flat)

    def write_lines(self, part: str, lines: Iterable[str]) -> None:
        """Writes the raw lines of a column."""
        self.write(f"{part}.txt", "".join(f"{line}\n" for line in lines).encode())

    def lines(self, part: str) -> Iterator[str]:
        """The raw lines of a column that has been written, one after another."""
        with (self.folder / f"{part}.txt").open("rb") as file:
            for raw in file:
                yield raw.decode().removesuffix("\n")

    def encode_split(self, split: str, parts: Sequence[str], tokenizer: "AnyTokenizer") -> dict[str, Any]:
        """Writes tokens and offsets of columns whose raw lines have been written.

        Args:
            split: of the columns.
            parts: the columns.
            tokenizer: turns lines into ids.

        Returns:
            Its examples and the tokens of each column, for the manifest.
        """
        coded = {part: self._encode(f"{split}.{part}", tokenizer) for part in parts}
        return {
            "examples": coded[parts[0]][0],
            "tokens": {part: tokens for part, (_, tokens) in coded.items()},
        }

    def _encode(self, part: str, tokenizer: "AnyTokenizer") -> tuple[int, int]:
        """Writes tokens and offsets of one column in blocks. Returns its lines and tokens."""
        dtype, lines, tokens = token_dtype(tokenizer.size), 0, 0
        text = self.lines(part)
        with (
            self.stream(f"{part}.tokens.bin") as token_file,
            self.stream(f"{part}.offsets.bin") as offset_file,
        ):
            offset_file.write(np.zeros(1, "<i8").tobytes())
            while block := list(islice(text, BLOCK)):
                ids = tokenizer.encode_batch(block)
                ends = tokens + np.cumsum(np.fromiter(map(len, ids), np.int64, len(ids)))
                token_file.write(np.fromiter((i for row in ids for i in row), dtype).tobytes())
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
        name: of the data set.
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
        f"cannot move the new store to {final}; delete that folder and run the same command again"
    )
