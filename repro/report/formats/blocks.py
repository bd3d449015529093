"""A document independent of its format: headings, paragraphs, lists, tables, figures; all texts plain."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A text that leads to another document.

    Attributes:
        page: of the site, ``admin.html``.
        file: of the tables, ``admin.md``.
    """

    text: str
    page: str
    file: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class VerdictWord:
    """A word of :data:`repro.report.views.words.WORDS` with a reason."""

    word: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.why}" if self.why else self.word


Cell = str | Link | VerdictWord


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the document's title."""

    level: int
    text: str

    @property
    def anchor(self) -> str:
        """The address of the heading within the document, as GitHub makes it."""
        return re.sub(r"[^\w -]", "", self.text.lower()).replace(" ", "-")


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines of a shell."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        header: column titles.
        rows: cells, as many in each row as there are titles.
        right: columns of numbers, set flush right.
        kinds: ``paper``, ``ours`` or ``""`` for each row.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: frozenset[int] = frozenset()
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.header), (self.header, row)

    def kind(self, index: int) -> str:
        """The kind of a row."""
        return self.kinds[index] if self.kinds else ""


@dataclass(frozen=True)
class Figure:
    """A plot, by its file name in ``results/plots``."""

    name: str
    caption: str


Block = Heading | Paragraph | Code | Bullets | Grid | Figure
Document = list[Block]
