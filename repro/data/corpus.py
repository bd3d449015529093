"""Text for language models as it comes: from files, from the hub, or from the running Python. In pieces, not whole.

A piece is some bytes that end at the end of a line, or of a character where a file is cut by bytes.
"""

import gzip
import hashlib
import lzma
import platform
import sysconfig
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from repro.data import obtain
from repro.data.source import Source, Text
from repro.errors import UserError

Pieces = Callable[[], Iterator[bytes]]
PIECE_BYTES = 2**23
_BAD_FILE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
# Where the hash of a file's name falls among twenty decides its split, in every version of Python.
_HELD_OUT = {0: "val", 1: "test"}


@dataclass
class Corpus:
    """The raw text of a source.

    Attributes:
        splits: by name, what gives the pieces of a split, as often as it is called.
        origin: how it was obtained, with the SHA-256 of all content, for the manifest.
        words: the official vocabulary that came with it, or None.
    """

    splits: dict[str, Pieces]
    origin: dict[str, Any]
    words: list[str] | None = field(default=None)


def _open_zip(path: Path) -> IO[bytes]:
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        raise zipfile.BadZipFile(f"{len(names)} files inside, not one")
    return archive.open(names[0])


_OPENERS: dict[str, Callable[[Path], Any]] = {
    "": partial(open, mode="rb"),
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".zip": _open_zip,
}


def _pieces(paths: list[Path]) -> Iterator[bytes]:
    for path in paths:
        try:
            with _OPENERS.get(path.suffix, _OPENERS[""])(path) as file:
                while piece := file.read(PIECE_BYTES):
                    yield piece + file.readline()
        except _BAD_FILE as error:
            raise UserError(f"cannot read {path}: {error}; get the file again") from None


def _slices(content: bytes, begin: int, end: int) -> Iterator[bytes]:
    while begin < end:
        stop = min(end, begin + PIECE_BYTES)
        while stop < end and content[stop] & 0xC0 == 0x80:  # inside a character
            stop += 1
        yield content[begin:stop]
        begin = stop


def _digest(pieces: Pieces) -> str:
    digest = hashlib.sha256()
    for piece in pieces():
        digest.update(piece)
    return digest.hexdigest()


def _compare(source: Source, key: str, found: str, where: str) -> None:
    known = source.sha256.get(key)
    if known is not None and known != found:
        raise UserError(
            f"{where}: sha256 of the content is {found:.16}…, that of {source.name} {key} is {known:.16}…; "
            "use the original files"
        )


def _find(folder: Path, text: Text, names: tuple[str, ...]) -> list[Path]:
    """The files of the first name that is there, sorted; of several forms of one file the plain one."""
    for base in (folder, *(folder / inner for inner in text.folders)):
        for name in names:
            found: dict[str, Path] = {}
            for end in _OPENERS:
                for path in sorted(base.glob(name + end)):
                    if path.is_file():
                        found.setdefault(path.name.removesuffix(end), path)
            if found:
                return [found[stem] for stem in sorted(found)]
    return []


def _require(folder: Path, text: Text, key: str, names: tuple[str, ...]) -> list[Path]:
    paths = _find(folder, text, names)
    if not paths:
        raise UserError(f"--from {folder}: no {' or '.join(names)}, plain or .gz, .xz or .zip")
    wanted = text.shards.get(key, len(paths))
    if len(paths) != wanted:
        raise UserError(f"--from {folder}: {len(paths)} of the {wanted} files {names[0]}")
    return paths


def from_files(source: Source, folder: Path, needs_words: bool = False) -> Corpus:
    """Finds the files of a source in a folder, or in a usual folder below, and compares their hashes.

    Args:
        source: a source of text.
        folder: as given on the command line.
        needs_words: the official vocabulary must be there.

    Raises:
        UserError: a file is missing, cannot be read, or is not the known content.
    """
    folder, text = Path(folder), source.text
    assert text is not None
    if not folder.is_dir():
        raise UserError(f"--from {folder}: no such folder")
    origin = {"kind": "files", "id": source.hub_id, "revision": source.revision}
    if text.layout == "whole":
        path = _require(folder, text, "whole", text.files["whole"])[0]
        return cut_whole(source, b"".join(_pieces([path])), str(path), origin)
    if text.layout == "folder":
        splits = _books(folder)
    else:
        splits = {
            split: partial(_pieces, _require(folder, text, split, text.files[split]))
            for split in source.splits
        }
    hashes = {split: _digest(pieces) for split, pieces in splits.items()}
    for split, found in hashes.items():
        _compare(source, f"{split}.text", found, f"--from {folder}, {split}")
    words = _official_words(folder, text) if needs_words and text.vocabulary else None
    return Corpus(splits, {**origin, "sha256": hashes}, words)


def _official_words(folder: Path, text: Text) -> list[str]:
    path = _require(folder, text, "vocabulary", text.vocabulary)[0]
    lines = b"".join(_pieces([path])).decode(errors="replace").splitlines()
    words = [line.split()[0] for line in lines if line.strip()]
    for needed in (text.line_end, text.unknown):
        if needed not in words:
            raise UserError(f"{path}: no {needed} among its {len(words)} words; use the original file")
    return list(dict.fromkeys(words))


def cut_whole(source: Source, content: bytes, where: str, origin: dict[str, Any]) -> Corpus:
    """Cuts one text into splits at known bytes.

    Raises:
        UserError: it is not as long as it should be, or not the known content.
    """
    assert source.text is not None
    sizes = source.text.cut
    wanted = sum(sizes.values())
    if source.text.prefix:
        content = content[:wanted]
    if len(content) != wanted:
        raise UserError(
            f"{where} has {len(content):,} bytes, {source.name} has {wanted:,}; use the original file"
        )
    found = hashlib.sha256(content).hexdigest()
    _compare(source, "whole", found, where)
    splits: dict[str, Pieces] = {}
    begin = 0
    for split, size in sizes.items():
        splits[split] = partial(_slices, content, begin, begin + size)
        begin += size
    return Corpus(splits, {**origin, "sha256": {"whole": found}})


def _books(folder: Path) -> dict[str, Pieces]:
    """Books: files named train, val and test; else the last twentieths of the sorted files, or of the lines."""
    named = {split: _find(folder, _NAMED, names) for split, names in _NAMED.files.items()}
    if all(named.values()):
        return {split: partial(_pieces, paths) for split, paths in named.items()}
    found: dict[str, Path] = {}
    for end in _OPENERS:
        for path in folder.rglob(f"*.txt{end}"):
            if path.is_file():
                found.setdefault(path.relative_to(folder).as_posix().removesuffix(end), path)
    if not found:
        raise UserError(f"--from {folder}: no .txt files in it, plain or .gz, .xz or .zip")
    paths = [found[name] for name in sorted(found)]
    held = max(1, round(len(paths) / 20))
    if len(paths) >= 3:
        shares = {"train": paths[: -2 * held], "val": paths[-2 * held : -held], "test": paths[-held:]}
        return {split: partial(_pieces, mine) for split, mine in shares.items()}
    content = b"".join(_pieces(paths))
    edges = [0, *(content.find(b"\n", len(content) * n // 20) + 1 for n in (18, 19)), len(content)]
    if sorted(set(edges)) != edges:
        raise UserError(f"--from {folder}: too few lines to cut val and test from; give more text")
    return {
        split: partial(_slices, content, edges[i], edges[i + 1])
        for i, split in enumerate(("train", "val", "test"))
    }


_NAMED = Text(
    levels=(),
    layout="splits",
    files={"train": ("train.txt",), "val": ("val.txt", "valid.txt"), "test": ("test.txt",)},
)


def from_hub(source: Source) -> Corpus:
    """Downloads through ``datasets``; a line of a file is a row there.

    Raises:
        UserError: the hub cannot be reached, lacks a split, or its content is not the known one; names ``--from``.
    """
    text = source.text
    assert text is not None
    found, origin = obtain.download(source)
    columns = {}
    for split, theirs in source.hub_splits.items():
        if theirs not in found:
            raise UserError(f"{source.hub_id} on the hub has no split {split}; {obtain.remedy(source)}")
        columns[split] = found[theirs][text.hub_column]
    where = f"{source.hub_id} on the hub"
    if text.layout == "whole":
        content = "".join(row for split in source.splits for row in columns[split]).encode()
        return cut_whole(source, content, where, origin)
    splits = {split: partial(_rows, column, text.hub_blank) for split, column in columns.items()}
    hashes = {split: _digest(pieces) for split, pieces in splits.items()}
    for split, digest in hashes.items():
        _compare(source, f"{split}.text", digest, where)
    return Corpus(dict(splits), {**origin, "sha256": hashes})


def _rows(column: Any, blank: str) -> Iterator[bytes]:
    lines: list[str] = []
    size = 0
    for row in column:
        line = str(row).removesuffix("\n")
        lines.append(line or blank)
        size += len(line) + 1
        if size >= PIECE_BYTES:
            yield "".join(f"{line}\n" for line in lines).encode()
            lines, size = [], 0
    yield "".join(f"{line}\n" for line in lines).encode()


def from_library() -> Corpus:
    """The ``*.py`` files of the running Python's standard library, sorted by name, tests left out.

    A file's split depends on the hash of its name alone: about one in twenty is for validation, one for test.

    Raises:
        UserError: there are none (a zipped library).
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    names = sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if not _LEFT_OUT.intersection(path.relative_to(root).parts[:-1])
    )
    paths: dict[str, list[Path]] = {"train": [], "val": [], "test": []}
    for name in names:
        place = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 20
        paths[_HELD_OUT.get(place, "train")].append(root / name)
    if not all(paths.values()):
        raise UserError(f"this Python keeps only {len(names)} files of its standard library; use another")
    splits: dict[str, Pieces] = {split: partial(_pieces, mine) for split, mine in paths.items()}
    origin = {"kind": "generated", "id": "python-stdlib", "revision": f"Python {platform.python_version()}"}
    hashes = {split: _digest(pieces) for split, pieces in splits.items()}
    return Corpus(splits, {**origin, "files": len(names), "sha256": hashes})
