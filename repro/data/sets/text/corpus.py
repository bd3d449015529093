"""Text for language models as a stream of pieces. Standard library only."""

import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from repro.data.packed import AS, glob_packed, open_packed
from repro.errors import UserError

PIECE_BYTES = 2**23
_TITLE = re.compile(rb" = [^=\n](.*[^=\n])? = ?\n")


class Piece(NamedTuple):
    """Some bytes of a split.

    Attributes:
        text: ends at the end of a line, or of a character where a file is cut by bytes.
        begins: whether a file or an article begins with it.
    """

    text: bytes
    begins: bool = False


Pieces = Callable[[], Iterator[Piece]]


@dataclass(frozen=True)
class Reading:
    """The conversion of text to tokens.

    Attributes:
        line_end: word that stands for the end of a line.
        unknown: word that stands for words out of the vocabulary.
        sentences: a line is a sentence whose neighbours mean nothing; the store knows where each begins.
        seen_bytes: only bytes that occur in training are symbols; else all 256 are.
        strip_lines: blanks at the ends of lines are no characters.
        documents: what the store knows the beginnings of: files, or the articles in them
            (:func:`articles`); None for a text without documents.
    """

    line_end: str = "<eos>"
    unknown: str = "<unk>"
    sentences: bool = False
    seen_bytes: bool = False
    strip_lines: bool = False
    documents: Literal["files", "articles"] | None = None


@dataclass
class Corpus:
    """The raw text of a data set.

    Attributes:
        splits: by name, what gives the pieces of a split, as often as it is called.
        origin: how it was obtained, with the SHA-256 of all content, for the manifest.
        words: the official vocabulary that came with it, or None.
    """

    splits: dict[str, Pieces]
    origin: dict[str, Any]
    words: list[str] | None = None


def pieces_of(paths: list[Path]) -> Iterator[Piece]:
    for path in paths:
        with open_packed(path) as file:
            yield from _whole_lines(file)


def _whole_lines(file: IO[bytes]) -> Iterator[Piece]:
    """Pieces of a document, which begins with the first one."""
    begins = True
    while text := file.read(PIECE_BYTES):
        yield Piece(text + file.readline(), begins)
        begins = False


def articles(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same text, a piece for each article. An article begins at a line `` = Title = `` between empty lines."""
    lines = (line for piece in pieces for line in io.BytesIO(piece.text))
    before, line, article = b"", next(lines, b""), list[bytes]()
    while line:
        after = next(lines, b"")
        title = not before.strip() and not after.strip() and _TITLE.fullmatch(line)
        if title and any(text.strip() for text in article):
            yield Piece(b"".join(article), begins=True)
            article = []
        article.append(line)
        before, line = line, after
    yield Piece(b"".join(article), begins=True)


def _slices(content: bytes, begin: int, end: int) -> Iterator[Piece]:
    while begin < end:
        stop = min(end, begin + PIECE_BYTES)
        while stop < end and content[stop] & 0xC0 == 0x80:  # inside a character
            stop += 1
        yield Piece(content[begin:stop])
        begin = stop


def cut_at(content: bytes, sizes: dict[str, int]) -> dict[str, Pieces]:
    """Cuts content into splits of given sizes in bytes, in order."""
    splits: dict[str, Pieces] = {}
    begin = 0
    for split, size in sizes.items():
        splits[split] = partial(_slices, content, begin, begin + size)
        begin += size
    return splits


def cut_at_lines(documents: list[bytes], edges: list[int]) -> list[Pieces]:
    """Cuts documents, one behind the other, into splits of whole lines. A split begins a document of its own.

    Args:
        documents: their contents.
        edges: in bytes of all, in order: where each split begins, at the beginning of a line, and where the last ends.
    """
    content = b"".join(documents)
    ends = list(itertools.accumulate(map(len, documents)))
    return [
        partial(_parts, content, sorted({begin, end, *(at for at in ends if begin < at < end)}))
        for begin, end in itertools.pairwise(edges)
    ]


def _parts(content: bytes, edges: list[int]) -> Iterator[Piece]:
    for begin, end in itertools.pairwise(edges):
        yield from _whole_lines(io.BytesIO(content[begin:end]))


def files_of(folder: Path, folders: tuple[str, ...], names: tuple[str, ...]) -> list[Path]:
    """The files of the first name that exists."""
    tried = (
        glob_packed(base, name) for base in (folder, *(folder / inner for inner in folders)) for name in names
    )
    return next((paths for paths in tried if paths), [])


def need_files(folder: Path, folders: tuple[str, ...], names: tuple[str, ...]) -> list[Path]:
    paths = files_of(folder, folders, names)
    if not paths:
        raise UserError(f"--from {folder}: no {' or '.join(names)}{AS}")
    return paths


def row_pieces(column: Iterable[object], blank: str) -> Iterator[Piece]:
    """Pieces of the rows of the hub, each a line of a file."""
    lines: list[str] = []
    size = 0
    for row in column:
        line = str(row).removesuffix("\n")
        lines.append(line or blank)
        size += len(line) + 1
        if size >= PIECE_BYTES:
            yield Piece("".join(f"{line}\n" for line in lines).encode())
            lines, size = [], 0
    yield Piece("".join(f"{line}\n" for line in lines).encode())
