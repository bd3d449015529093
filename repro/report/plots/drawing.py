"""Charts drawn with matplotlib: SVG whose colours are CSS variables, and PDF."""

import hashlib
import html
import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.report.plots.chart import COLUMNS, Chart, Line, Panel, Value
from repro.text import clean

STYLE = Path(__file__).with_name("figures.mplstyle")
MARKERS = ("o", "s", "^", "D", "v")
WIDTH, HEIGHT, ROW, NOTE = 330, 230, 17, 14  # pixels: of a panel, of a line of the legend, of a note
LETTER, KEY = 6.5, 42  # pixels: of a letter, of the key of a name in the legend
FEW = 30  # lines of at most this number of points have markers
TICKS = 8  # up to this number of settings, each is a tick
TIGHT = 0.08  # ticks nearer to each other, as a part of the axis, would overlap
WORD, PER_LETTER = 0.2, 0.045  # width of a word's place, as a part of the numbers' range
DODGE = 0.5  # lines that share a word's place spread over this part of it


def svg(chart: Chart, name: str, caption: str, colours: dict[str, str], attributes: str) -> str:
    """An SVG whose colours are variables; the same chart gives the same bytes under the same matplotlib.

    Args:
        chart: what is drawn.
        name: of the file; identifiers within the SVG begin with its hash, so several can stand in one page.
        caption: the accessible name.
        colours: name of a CSS variable by light colour, ``#rrggbb``; every colour of the style is one.
        attributes: of the root element, and the style sheet behind it.
    """
    out = io.StringIO()
    with _style():
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        _figure(chart).savefig(out, format="svg", metadata=metadata)
    drawn = re.sub(r"(?s)^.*?(?=<svg)|<metadata>.*?</metadata>\s*|<defs>\s*<style.*?</style>\s*</defs>\s*", "",
                   out.getvalue())  # fmt: skip
    drawn = re.sub(r"<[^<>]+>", lambda match: _tag(match[0], colours), drawn)
    drawn = re.sub(r"\s*\n\s*", "\n", drawn)
    return _numbered(drawn, name).replace(
        "<svg", f'<svg role="img" aria-label="{html.escape(clean(caption))}" {attributes}', 1
    )


def pdf(chart: Chart) -> bytes:
    """A PDF for a paper, in the light colours."""
    out = io.BytesIO()
    with _style():
        _figure(chart).savefig(out, format="pdf", metadata={"CreationDate": None})
    return out.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    """Our style alone, independent of the user's settings; letters that no font has are left to the reader."""
    with matplotlib.rc_context(fname=STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def _tag(tag: str, colours: dict[str, str]) -> str:
    """A tag with attributes in place of a style, variables in place of colours, coordinates of one decimal."""
    tag = re.sub(r' style="([^"]*)"', lambda match: _attributes(match[1]), tag)
    tag = re.sub(r' id="[\w.]*_\d+"| transform="rotate\(-0 [^"]*"|(?<=\d)pt(?=")| version="1.1"', "", tag)
    tag = re.sub(r"#[0-9a-f]{6}\b(?!\w)(?=\")", lambda match: f"var(--{colours[match[0]]})", tag)
    tag = re.sub(r"(?<![\w#])-?\d+\.\d+", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), tag)
    return re.sub(r" ?\n(?=[\"A-Zz])", "", tag) if tag.startswith("<path") else tag


def _numbered(drawn: str, name: str) -> str:
    """Identifiers that count up. Matplotlib's are salted hashes of coordinates, which differ between processors."""
    prefix = hashlib.sha256(name.encode()).hexdigest()[:8]
    numbered: dict[str, str] = {}
    return re.sub(
        r'(?<=[#"])[mp][0-9a-f]{10}(?=[)"])',
        lambda match: numbered.setdefault(match[0], f"i{prefix}_{len(numbered)}"),
        drawn,
    )


def _attributes(style: str) -> str:
    """A style as attributes, which a strict content policy allows; the font's family is the reader's."""
    pairs = [part.split(":", 1) for part in style.split(";") if ":" in part]
    return "".join(f' {k.strip()}="{v.strip()}"' for k, v in pairs if k.strip() != "font-family")


def _figure(chart: Chart) -> Figure:
    panels = chart.panels
    columns, rows = min(COLUMNS, len(panels)), -(-len(panels) // COLUMNS)
    width = max(WIDTH * columns, 16 + 8 * len(clean(chart.title)))
    keys = _keys_in_a_row([KEY + LETTER * len(clean(name)) for name in chart.names], width)
    above = ROW * (2 + -(-len(chart.names) // keys)) if chart.title or chart.names else 0
    notes = NOTE * max(len(panel.notes) + panel.title.count("\n") for panel in panels)
    height = above + rows * (HEIGHT + notes)
    figure = Figure(figsize=(width / 72, height / 72))
    for panel, axes in zip(panels, figure.subplots(rows, columns, squeeze=False).flat, strict=False):
        _panel(axes, panel)
    for axes in figure.axes[len(panels) :]:
        axes.remove()
    marked = any(panel.settings for panel in panels)
    handles = [_key(look, name, marked) for look, name in enumerate(chart.names)]
    if above:
        figure.legend(handles=handles, loc="outside upper left", ncols=keys, alignment="left", title=clean(chart.title),
                      title_fontproperties={"weight": "bold", "size": 13})  # fmt: skip
    return figure


def _keys_in_a_row(widths: list[float], room: float) -> int:
    """The number of legend entries in a row: all, or as many as fit in any order."""
    return len(widths) or 1 if sum(widths) <= room else max(1, int(room / max(widths)))


def _key(look: int, name: str, marked: bool, line: bool = True) -> Line2D:
    """An entry of a legend."""
    drawn = Line2D([], [], **_style_of(look), label=clean(name))
    drawn.set_marker(MARKERS[look % len(MARKERS)] if marked else "none")
    if not line:
        drawn.set_linestyle("none")
    return drawn


def _style_of(look: int) -> dict[str, Any]:
    """Colour and dashes: a look beyond the style's colours has another one's dashes."""
    cycle = matplotlib.rcParams["axes.prop_cycle"].by_key()
    colours, dashes = cycle["color"], cycle["linestyle"]
    return {
        "color": colours[look % len(colours)],
        "linestyle": dashes[(look + look // len(colours)) % len(dashes)],
    }


def _panel(axes: Axes, panel: Panel) -> None:
    across = Across(panel)
    axes.set_xlabel(clean(panel.x_label))
    axes.set_ylabel(clean(panel.y_label))
    _title(axes, panel)
    if panel.log_y:
        axes.set_yscale("log")
    for line in panel.lines:
        _line(axes, panel, line, across)
    across.dress(axes)
    _y_axis(axes, panel)
    for x, words in panel.rules:
        axes.axvline(x, color="#7d8590", linestyle=(0, (3, 3)), linewidth=1)
        in_left_half = axes.transLimits.transform(axes.transScale.transform((x, axes.get_ylim()[1])))[0] < 0.5
        side: dict[str, Any] = (
            {"xytext": (4, 6), "ha": "left"} if in_left_half else {"xytext": (-4, 6), "ha": "right"}
        )
        axes.annotate(words, (x, 0), xycoords=("data", "axes fraction"), textcoords="offset points", **side)
    if panel.notes:
        handles = [_key(look, words, True, line=False) for look, words in panel.notes]
        axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), handlelength=0.8)


def _title(axes: Axes, panel: Panel) -> None:
    """The title's lines above the notes; those before an empty line are bold."""
    head, _, title = panel.title.partition("\n\n") if "\n\n" in panel.title else ("", "", panel.title)
    above = 6 + NOTE * len(panel.notes)
    axes.set_title("\n".join(map(clean, title.split("\n"))), pad=above)
    if head:
        above += NOTE * (1 + title.count("\n")) + 3
        axes.annotate(
            "\n".join(map(clean, head.split("\n"))),
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, above),
            textcoords="offset points",
            weight="bold",
        )


def _y_axis(axes: Axes, panel: Panel) -> None:
    """Round numbers; logarithmic ticks are powers of ten, with 2 and 5 times these where the range is small."""
    low, high = axes.get_ylim()
    if panel.log_y:
        fine = high / low < 300
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if fine else (1,), numticks=TICKS))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
    else:
        axes.yaxis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
        values = [y for line in panel.lines for _, y in line.points if y is not None]
        if panel.from_zero or min(values, default=1) == 0:
            axes.set_ylim(0, max(high, 1.05 * max(values)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: short(y)))


def _line(axes: Axes, panel: Panel, line: Line, across: "Across") -> None:
    """A stroke per stretch of numbers; markers where the panel has them, or where points are few."""
    style = _style_of(line.look)
    few = "o" if len(line.points) <= FEW else "none"
    marker = MARKERS[line.look % len(MARKERS)] if panel.settings else few
    for words, stretch in groupby(line.points, key=lambda point: isinstance(point[0], str)):
        points = [(across.place(x, line.look), math.nan if y is None else y) for x, y in stretch]
        axes.plot(
            *zip(*points, strict=True),
            **style | ({"linestyle": "none"} if words else {}),
            marker="none" if line.thin else marker,
            markersize=6 if panel.settings else 3.6,
            markeredgewidth=0,
            linewidth=0.8 if line.thin else 1.6,
            alpha=0.45 if line.thin else None,
            zorder=2 if line.thin else 3,
        )
    if line.dots:
        dots = [(across.place(x, line.look), y) for x, y in line.dots]
        axes.plot(
            *zip(*dots, strict=True), "o", color=style["color"], markersize=3.2, markeredgewidth=0, alpha=0.6
        )


class Across:
    """The x axis of a panel: its numbers, then a place for each word that was set."""

    def __init__(self, panel: Panel) -> None:
        values = [x for line in panel.lines for x, _ in (*line.points, *line.dots)]
        self.panel = panel
        self.looks = sorted({line.look for line in panel.lines})
        self.words = list(dict.fromkeys(x for x in values if isinstance(x, str)))
        self.numbers = sorted({x for x in values if not isinstance(x, str)})
        bent = [self._bend(x) for x in (self.numbers or [0.0])]
        self.low, self.high = bent[0], bent[-1]
        self.range = (self.high - self.low) or 1.0
        self.step = self.range * max(WORD, PER_LETTER * max(map(len, self.words), default=0))

    def _bend(self, x: float) -> float:
        return math.log2(x) if self.panel.log_x else x

    def _back(self, bent: float) -> float:
        return 2.0**bent if self.panel.log_x else bent

    @property
    def end(self) -> float:
        """The end of the axis, in the coordinates of :meth:`_bend`."""
        return self.high + 0.04 * self.range

    def place(self, x: Value, look: int | None = None) -> float:
        """The coordinate of a value; lines that share a word's position are placed side by side."""
        if not isinstance(x, str):
            return x
        aside = 0.0
        if look is not None and len(self.looks) > 1:
            aside = DODGE * (self.looks.index(look) / (len(self.looks) - 1) - 0.5)
        return self._back(self.end + (self.words.index(x) + 0.5 + aside) * self.step)

    def dress(self, axes: Axes) -> None:
        """Scale, limits and ticks, and a rule between numbers and words."""
        if self.panel.log_x:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_minor_locator(ticker.NullLocator())
        else:
            axes.xaxis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: self._tick_label(x)))
        if self.panel.settings:
            ticks = {self.place(x): self._tick_label(x) for x in self._ticks()}
            ticks |= {self.place(word): clean(word) for word in self.words}
            axes.set_xticks(list(ticks), list(ticks.values()))
            end = self.end + len(self.words) * self.step
            axes.set_xlim(self._back(self.low - 0.04 * self.range), self._back(end))
        if self.words and self.numbers:
            axes.axvline(self._back(self.end), color="#d9dde2", linewidth=1)

    def _ticks(self) -> Sequence[float]:
        """The numbers themselves where they are few and far apart, else round ones; every n-th power of two."""
        tight = any(self._bend(b) - self._bend(a) < TIGHT * self.range for a, b in pairwise(self.numbers))
        if len(self.numbers) <= TICKS and not tight:
            return self.numbers
        if not self.panel.log_x:
            ticks = ticker.MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(self.low, self.high)
            return [float(x) for x in ticks if self.low <= x <= self.high]
        powers = range(math.ceil(self.low), math.floor(self.high) + 1)
        return [2.0**e for e in powers[:: -(-len(powers) // TICKS)]]

    def _tick_label(self, x: float) -> str:
        return in_powers(x) if self.panel.log_x else short(x)


def short(value: float) -> str:
    """``1,000``, ``0.25``; ``1e-7`` for small and ``1e7`` for large numbers."""
    if value and not 1e-4 <= abs(value) < 1e6:
        return re.sub(r"e([+-])0*", lambda match: "e" + match[1].strip("+"), f"{value:.4g}")
    return f"{value:,.6g}"


def in_powers(value: float) -> str:
    """``512``, ``1K`` for 1024, ``64K``, ``2M``."""
    for size, letter in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if value >= size and value % size == 0:
            return f"{value / size:,.0f}{letter}"
    return short(value)
