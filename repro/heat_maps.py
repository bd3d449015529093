"""Numbers as pictures: labelled tables of colours, many on one sheet, as a PNG."""

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from repro.errors import ReproError

if TYPE_CHECKING:
    from PIL.Image import Image as Sheet
    from PIL.ImageDraw import ImageDraw as Pen
    from PIL.ImageFont import FreeTypeFont, ImageFont

    Font: TypeAlias = FreeTypeFont | ImageFont

CELL, FONT, GAP, MARGIN = 14, 11, 14, 16
# From nothing to all of it; and for numbers of both signs, through white. Both keep their order in grey.
_ONE_SIDED = ((255, 255, 255), (198, 219, 239), (66, 146, 198), (8, 48, 107))
_TWO_SIDED = ((178, 90, 8), (253, 208, 162), (255, 255, 255), (158, 202, 225), (8, 69, 148))
_INK, _FAINT, _RULE = (27, 31, 36), (208, 215, 222), (213, 94, 0)
_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial.ttf")
_LARGEST = 40_000_000  # pixels


@dataclass(frozen=True)
class HeatMap:
    """A table of numbers.

    Attributes:
        title: above it.
        values: row by row, from 0 to 1; from -1 to 1 where ``signed``.
        rows: label of each row; none where empty.
        columns: label of each column; none where empty.
        signed: whether there are numbers of both signs.
        cell: width and height of a number, in pixels.
        rules: columns that have a line at their left.
    """

    title: str
    values: Sequence[Sequence[float]]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    signed: bool = False
    cell: tuple[int, int] = (CELL, CELL)
    rules: Sequence[int] = ()


@dataclass(frozen=True)
class Band:
    """Tables side by side, and what they are, above them."""

    title: str
    maps: Sequence[HeatMap]


def draw(title: str, bands: Sequence[Band]) -> bytes:
    """A sheet of tables as a PNG.

    Args:
        title: above all.
        bands: one below the other.

    Raises:
        ReproError: the sheet would have more than 40 million pixels.
    """
    from PIL import Image, ImageDraw

    font, title = _font(), _plain(title)
    sizes = [[_size(table, font) for table in band.maps] for band in bands]
    widths = [sum(width for width, _ in row) + GAP * (len(row) - 1) for row in sizes]
    heights = [max(height for _, height in row) + 2 * FONT + GAP for row in sizes]
    width, height = (
        max([*widths, int(font.getlength(title))]) + 2 * MARGIN,
        sum(heights) + 3 * FONT + 2 * MARGIN,
    )
    if width * height > _LARGEST:
        raise ReproError(
            f"a picture of {width} x {height} pixels is too large; take a shorter sentence or fewer layers"
        )
    sheet = Image.new("RGB", (width, height), (255, 255, 255))
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, MARGIN), title, _INK, font)
    y = MARGIN + 3 * FONT
    for band, row, down in zip(bands, sizes, heights, strict=True):
        pen.text((MARGIN, y), _plain(band.title), _INK, font)
        x = MARGIN
        for table, (across, _) in zip(band.maps, row, strict=True):
            _place(sheet, pen, font, table, x, y + 2 * FONT)
            x += across + GAP
        y += down
    out = io.BytesIO()
    sheet.save(out, "PNG", optimize=True)
    return out.getvalue()


def colour(value: float, signed: bool = False) -> tuple[int, int, int]:
    """The colour of a number from 0 to 1, or from -1 to 1 where ``signed``; others are cut off, NaN is the lowest."""
    stops = _TWO_SIDED if signed else _ONE_SIDED
    share = (value + 1) / 2 if signed else value
    at = min(max(share, 0.0), 1.0) * (len(stops) - 1) if share == share else 0.0
    low = min(int(at), len(stops) - 2)
    mixed = (round(a + (b - a) * (at - low)) for a, b in zip(stops[low], stops[low + 1], strict=True))
    red, green, blue = mixed
    return red, green, blue


def _font() -> "Font":
    """A font of the machine that has letters of many languages; else Pillow's own, which has those of English."""
    from PIL import ImageFont

    for name in _FONTS:
        with contextlib.suppress(OSError):
            return ImageFont.truetype(name, FONT, layout_engine=ImageFont.Layout.BASIC)
    return ImageFont.load_default(FONT)


def _labels(table: HeatMap, font: "Font") -> tuple[int, int]:
    """Pixels left of the table and above it that labels and the title take."""
    left = max((int(font.getlength(_shown(label))) for label in table.rows), default=0)
    above = max((int(font.getlength(_shown(label))) for label in table.columns), default=0)
    return left + (4 if left else 0), above + (4 if above else 0) + FONT + 4


def _size(table: HeatMap, font: "Font") -> tuple[int, int]:
    left, above = _labels(table, font)
    columns = len(table.values[0]) if table.values else 0
    return left + max(columns * table.cell[0], int(font.getlength(_plain(table.title)))), above + len(
        table.values
    ) * table.cell[1]


def _place(sheet: "Sheet", pen: "Pen", font: "Font", table: HeatMap, x: int, y: int) -> None:
    """Draws one table with its upper left corner, labels included, at ``(x, y)``."""
    left, above = _labels(table, font)
    wide, high = table.cell
    x, top = x + left, y + above
    pen.text((x, y), _plain(table.title), _INK, font)
    for i, row in enumerate(table.values):
        for j, value in enumerate(row):
            corner = (x + j * wide, top + i * high)
            pen.rectangle((*corner, corner[0] + wide - 1, corner[1] + high - 1), colour(value, table.signed))
    pen.rectangle(
        (x - 1, top - 1, x + len(table.values[0]) * wide, top + len(table.values) * high), outline=_FAINT
    )
    for j in table.rules:
        pen.line((x + j * wide, top, x + j * wide, top + len(table.values) * high), _RULE)
    for i, label in enumerate(table.rows):
        pen.text((x - 4, top + i * high + high // 2), _shown(label), _INK, font, anchor="rm")
    for j, label in enumerate(table.columns):
        _upright(sheet, font, _shown(label), x + j * wide + wide // 2, top - 3)


def _upright(sheet: "Sheet", font: "Font", text: str, x: int, bottom: int) -> None:
    """Text that reads upwards, its middle at ``x`` and its beginning at ``bottom``."""
    from PIL import Image, ImageDraw

    stamp = Image.new("L", (int(font.getlength(text)) + 2, FONT + 4), 0)
    ImageDraw.Draw(stamp).text((0, (FONT + 4) // 2), text, 255, font, anchor="lm")
    turned = stamp.rotate(90, expand=True)
    sheet.paste(_INK, (x - turned.width // 2, bottom - turned.height), turned)


def _shown(label: str, most: int = 16) -> str:
    """A label that fits: cut off where it is long."""
    plain = _plain(label)
    return plain if len(plain) <= most else plain[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _plain(text: str) -> str:
    """One line without control characters, at most 300 letters long."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:300])
