"""Numbers as colours: labelled heat maps in rows, as a PNG drawn with matplotlib."""

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from repro.errors import ReproError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI, CELL, LEFT, GAP, HEAD, LABELS = 100, 14, 90, 24, 50, 80  # the last five in pixels
LARGEST = 40_000_000  # pixels


@dataclass(frozen=True)
class HeatMap:
    """A table of numbers.

    Attributes:
        title: above it.
        values: row by row, from 0 to 1.
        rows: label of each row; none where empty.
        columns: label of each column; none where empty.
    """

    title: str
    values: Sequence[Sequence[float]]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True)
class Band:
    """Heat maps of one shape and the same labels side by side, under a title; the first shows the labels."""

    title: str
    maps: Sequence[HeatMap]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        first = self.maps[0]
        width = max(len(first.values[0]) * CELL, 6 * len(first.title)) + GAP
        return LEFT + width * len(self.maps), HEAD + LABELS + GAP + len(first.values) * CELL


def draw(title: str, bands: Sequence[Band]) -> bytes:
    """A sheet of heat maps as a PNG.

    Args:
        title: above all.
        bands: one below the other.

    Raises:
        ReproError: the sheet would have more than 40 million pixels.
    """
    import matplotlib
    from matplotlib.figure import Figure

    widths, heights = zip(*(band.size for band in bands), strict=True)
    width, height = max(widths), sum(heights) + HEAD
    if width * height > LARGEST:
        raise ReproError(
            f"a picture of {width} x {height} pixels is too large; take a shorter sentence or fewer layers"
        )
    out = io.BytesIO()
    with matplotlib.rc_context({"text.parse_math": False, "font.size": 7}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
        figure.text(LEFT / width, 1 - 20 / height, _plain(title, 300))
        top = HEAD
        for band in bands:
            _band(figure, band, width, height, top)
            top += band.size[1]
        figure.savefig(out, format="png")
    return out.getvalue()


def _band(figure: "Figure", band: Band, width: int, height: int, top: int) -> None:
    """Draws a band whose upper edge is so many pixels below that of the figure."""
    figure.text(LEFT / width, 1 - (top + 10) / height, _plain(band.title, 300))
    step = (band.size[0] - LEFT) / len(band.maps)
    for i, one in enumerate(band.maps):
        wide, high = len(one.values[0]) * CELL, len(one.values) * CELL
        left, bottom = LEFT + i * step, height - top - band.size[1] + GAP
        axes = figure.add_axes((left / width, bottom / height, wide / width, high / height))
        axes.imshow(np.array(one.values), "Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_title(_plain(one.title, 60), loc="left", fontsize=7)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        rows, columns = (one.rows, one.columns) if i == 0 else ((), ())
        axes.set_xticks(range(len(columns)), map(_plain, columns), rotation=90)
        axes.set_yticks(range(len(rows)), map(_plain, rows))


def _plain(label: str, most: int = 16) -> str:
    """Replaces control characters in a label, and shortens a long one."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in label)
    return plain if len(plain) <= most else plain[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
