"""The lines of the files of a parallel corpus, one after another: plain, packed, marked up. Standard library only.

A line ends at a line feed and nowhere else: crawled text holds carriage returns, form feeds and Unicode's line and
paragraph separators inside its lines, at which one side would fall behind the other.
"""

import hashlib
import html
import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from repro.data.packed import open_packed, plain_name
from repro.errors import UserError

MARKED_UP = (".sgm", ".xml")
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*)</seg>")
_CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
_TALK_LINES = ("<url>", "<talkid>", "<keywords>")
_TALK_TAGS = re.compile("</?(?:title|description)>")


def is_marked_up(path: Path) -> bool:
    """Whether a file holds segments in tags."""
    return Path(plain_name(path)).suffix in MARKED_UP


class LineFile:
    """The lines of one file, plain or packed. Iterate once.

    ``.sgm`` and ``.xml`` give the content of their segments, entities read, blanks at the ends stripped; of
    ``train.tags.*`` the lines that tell of a talk are left out, its title and description kept without their tags.

    Args:
        path: of the file.
        straight: in segments, a curly apostrophe is read as a straight one.

    Attributes:
        given: lines given so far.

    Source: ``prepare-iwslt14.sh`` of fairseq for segments and tags.
    """

    def __init__(self, path: Path, straight: bool = False) -> None:
        self.path = path
        self.given = 0
        self._straight = straight
        self._read = 0
        self._digest = hashlib.sha256()

    def facts(self) -> dict[str, Any]:
        """Lines given and SHA-256 of the raw content; of a file read to its end."""
        return {"lines": self.given, "sha256": self._digest.hexdigest()}

    def __iter__(self) -> Iterator[str]:
        """The lines, without their ends.

        Raises:
            UserError: the file cannot be read, is damaged, is not UTF-8, or is marked up and has no segment.
        """
        with open_packed(self.path) as file:
            for line in self._kept(self._decoded(file)):
                self.given += 1
                yield line
        if not self.given and is_marked_up(self.path):
            raise UserError(f"{self.path} has no segments (<seg ...>...</seg>); use the original file")

    def _decoded(self, file: IO[bytes]) -> Iterator[str]:
        for raw in file:
            self._read += 1
            self._digest.update(raw)
            try:
                yield raw.decode().removesuffix("\n")
            except UnicodeDecodeError:
                raise UserError(f"{self.path} is not UTF-8 in line {self._read}") from None

    def _kept(self, lines: Iterator[str]) -> Iterator[str]:
        if is_marked_up(self.path):
            return self._segments(lines)
        if self.path.name.startswith("train.tags."):
            return (_TALK_TAGS.sub("", line) for line in lines if not any(tag in line for tag in _TALK_LINES))
        return lines

    def _segments(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            match = _SEGMENT.search(line)
            if match:
                text = html.unescape(match[1]).strip()
                yield text.replace(_CURLY, "'") if self._straight else text


def in_pairs(sides: Sequence[LineFile]) -> Iterator[tuple[str, ...]]:
    """The files of a document line by line.

    Raises:
        UserError: one has more lines than the other, or cannot be read.
    """
    opened = [iter(side) for side in sides]
    for row in zip_longest(*opened):
        if None in row:
            for lines in opened:
                deque(lines, maxlen=0)  # counts them
            lengths = ", ".join(f"{side.path} has {side.given:,} lines" for side in sides)
            raise UserError(f"{lengths}; each side needs one line per pair")
        yield row
