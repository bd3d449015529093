"""Plain and packed files: finding, opening and hashing them, with all errors."""

import contextlib
import gzip
import hashlib
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from repro.errors import UserError

FORMS = ("", ".gz", ".xz", ".zip")  # the ends of names, the plain file's first
_RETURNS = re.compile(rb"\r+(?=\n|\Z)")
# By file, or split of a text: what its last reading removed, or that it is hidden and was passed over.
REMOVED: dict[str, Counter[str]] = {}
AS = ", plain or .gz, .xz or .zip"


@contextlib.contextmanager
def open_packed(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file, plain, ``.gz``, ``.xz`` or a ``.zip`` of one file, to read its raw content.

    Raises:
        UserError: it cannot be read, or is damaged, as far as it is read in the block.
    """
    openers: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open, ".zip": _open_zip}
    try:
        with openers.get(path.suffix, partial(open, mode="rb"))(path) as file:
            yield file
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError) as error:
        raise UserError(f"cannot read {path}: {error}; get the file again") from None


def _open_zip(path: Path) -> IO[bytes]:
    """The one file of an archive, which may have folders, too."""
    with zipfile.ZipFile(path) as archive:
        files = [name for name in archive.namelist() if not name.endswith("/")]
        if len(files) != 1:
            raise zipfile.BadZipFile(f"{len(files)} files inside, not one")
        return archive.open(files[0])


def read_packed(path: Path) -> bytes:
    """The raw content of a file.

    Raises:
        UserError: it cannot be read, or is damaged.
    """
    with open_packed(path) as file:
        return bytes(file.read())


def find_packed(folder: Path, name: str) -> Path | None:
    """The file of that name, plain or packed; None where there is none."""
    return next((path for form in FORMS if (path := folder / f"{name}{form}").is_file()), None)


def need_packed(folder: Path, name: str, remedy: str) -> Path:
    """Finds a file that must be there.

    Raises:
        UserError: there is none; names the remedy.
    """
    path = find_packed(folder, name)
    if path is None:
        raise UserError(f"--from {folder}: no {name}{AS}; {remedy}")
    return path


def glob_packed(folder: Path, pattern: str) -> list[Path]:
    """The files of a pattern, sorted by their plain names; of several forms of one file the first of ``FORMS``.

    Hidden files and those in hidden folders, which some programs put beside others, are left out.
    """
    paths: dict[str, Path] = {}
    for form in FORMS:
        for path in folder.glob(pattern + form):
            if is_hidden(path, folder):
                REMOVED[str(path)] = Counter({"hidden files": 1})
            elif path.is_file():
                paths.setdefault(path.relative_to(folder).as_posix().removesuffix(form), path)
    return [paths[name] for name in sorted(paths)]


def is_hidden(path: Path, folder: Path) -> bool:
    """Whether a file is hidden, or is in a hidden folder below the given one."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def plain_name(path: Path) -> str:
    """A file's name without the suffix of its packing."""
    return path.stem if path.suffix in FORMS else path.name


def sha256_of(pieces: Iterable[bytes]) -> str:
    """SHA-256 of some content, piece by piece."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file on disk."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class TextFile:
    """The lines of a text file in UTF-8, plain or packed. Iterate once.

    A line ends at a line feed and nowhere else: crawled text has form feeds and Unicode's separators inside its lines.
    Carriage returns before the line feed and a byte order mark belong to no line.

    Args:
        path: of the file.

    Attributes:
        read: lines read so far.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read = 0
        self._digest = hashlib.sha256()

    def facts(self) -> dict[str, Any]:
        """Number of lines and SHA-256 of the raw content, for the manifest; of a file that was read to its end."""
        return {"lines": self.read, "sha256": self._digest.hexdigest()}

    def __iter__(self) -> Iterator[str]:
        """The lines, without their ends.

        Raises:
            UserError: the file cannot be read, is damaged, or is not UTF-8; names the line.
        """
        found = REMOVED[str(self.path)] = Counter()
        with open_packed(self.path) as file:
            for raw in file:
                self.read += 1
                self._digest.update(raw)
                line = plain(raw, self.read == 1, found)
                yield decoded(line, f"{self.path}, line {self.read}").removesuffix("\n")


def plain(text: bytes, begins: bool, found: Counter[str]) -> bytes:
    """Text without carriage returns at the ends of lines and, where it begins, a byte order mark; counts them."""
    unmarked = text.removeprefix("\ufeff".encode()) if begins else text
    lines, ends = _RETURNS.subn(b"", unmarked) if b"\r" in text else (unmarked, 0)
    if len(lines) < len(text):
        found.update({"byte order marks": len(unmarked) < len(text), "carriage returns at line ends": ends})
    return lines


def decoded(content: bytes, origin: str) -> str:
    """Text in UTF-8.

    Raises:
        UserError: it is not UTF-8; names the source.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{origin} is not UTF-8 at byte {error.start}; convert it, or get it again") from None
