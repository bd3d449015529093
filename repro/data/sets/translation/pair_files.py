"""Lines of sentence pairs in files: plain, marked up as segments, or talks with tags.

Source: ``prepare-iwslt14.sh`` of fairseq, for segments and tags.
"""

import html
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from repro.data.packed import REMOVED, TextFile, plain_name
from repro.data.sets.translation.cleaning import Pairs
from repro.errors import UserError

_MARKED_UP = (".sgm", ".xml")
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*)</seg>")
_CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
_TALK_LINES = ("<url>", "<talkid>", "<keywords>")
_TALK_TAGS = re.compile("</?(?:title|description)>")
Document = dict[str, Path]  # the file of each side


def label(document: Document) -> str:
    """A document by its first file, without the language."""
    part, path = next(iter(document.items()))
    return plain_name(path).removesuffix(f".{part}")


def read_pairs(
    documents: list[Document], straight: bool, files: dict[str, dict[str, Any]], empty: bool = True
) -> Pairs:
    """The pairs of some documents; adds the facts of every file to ``files``.

    Args:
        documents: their files.
        straight: see :func:`kept_lines`.
        files: gets the facts of every file.
        empty: whether sides without text are kept; else pairs without any are left out and counted as removed.

    Raises:
        UserError: a side has more lines than the other, cannot be read, is marked up and has no segment, or has no
            text beside some that is to be kept; names the line.
    """
    for document in documents:
        sides = [TextFile(path) for path in document.values()]
        count = 0
        for row in zip_longest(*(kept_lines(side, straight) for side in sides)):
            if None in row:
                ended = sides[row.index(None)].path
                raise UserError(
                    f"{ended} has {count:,} lines, fewer than the other side; each needs one line per pair"
                )
            count += 1
            blank = [side for side, line in zip(sides, row, strict=True) if not (empty or line.strip())]
            if len(blank) == 1:
                raise UserError(
                    f"{blank[0].path}, line {blank[0].read} has no text, the other side has; fill or delete both"
                )
            if blank:
                REMOVED[str(blank[0].path)]["pairs without text"] += 1
            else:
                yield row
        if not count and _is_marked_up(sides[0].path):
            raise UserError(f"{sides[0].path} has no segments (<seg ...>...</seg>); use the original file")
        files.update({plain_name(side.path): {**side.facts(), "lines": count} for side in sides})


def _is_marked_up(path: Path) -> bool:
    return Path(plain_name(path)).suffix in _MARKED_UP


def kept_lines(file: TextFile, straight: bool) -> Iterator[str]:
    """The lines of a side.

    Of marked-up files these are the contents of segments, entities read, blanks at the ends stripped; of
    ``train.tags.*`` not those that tell of a talk, but its title and description without their tags.

    Raises:
        UserError: a segment is not on one line of its own; names the line. Errors of :class:`TextFile`.
    """
    marked, talks = _is_marked_up(file.path), file.path.name.startswith("train.tags.")
    for line in file:
        if marked:
            if len(re.findall(r"</?seg\b", line)) != (2 if (match := _SEGMENT.search(line)) else 0):
                raise UserError(f"{file.path}, line {file.read}: must be one whole segment; use the original")
            if match:
                text = html.unescape(match[1]).strip()
                yield text.replace(_CURLY, "'") if straight else text
        elif not talks:
            yield line
        elif not any(tag in line for tag in _TALK_LINES):
            yield _TALK_TAGS.sub("", line)
