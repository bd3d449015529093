"""Charts drawn with matplotlib."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import matplotlib
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.evidence.text import clean
from repro.report.plots.chart import Chart, Panel, PlotLine, Value

EDGE = "#7d8590"
COLUMNS, WIDTH = 3, 800  # of a figure; widths and heights are in pixels
WIDEST, HEIGHT = 560, 210  # of a panel without its words
ROW, LETTER, KEY = 15, 6.5, 42  # of a line of words, of a letter, of the key of a name in the legend
MARKS = 15  # on a learning curve, at most
FACTOR_X, FACTOR_Y = 8, 30  # an axis is logarithmic where its values span more
NUMBER = "{x:,.6g}"
WIDE = {"linewidth": 7, "alpha": 0.4, "marker": "none"}


def chart(content: Chart) -> Figure:
    """The figure: panels side by side under one legend."""
    columns, rows = min(COLUMNS, len(content.panels)), -(-len(content.panels) // COLUMNS)
    width = min(WIDTH, WIDEST * columns)
    panels = [_wrapped(panel, int((width / columns - 50) / LETTER)) for panel in content.panels]
    words = max("\n".join([p.title, *(w for _, w in (*p.notes, *p.levels))]).count("\n") for p in panels)
    keys = max(1, int(width / (KEY + LETTER * max(map(len, content.names), default=0))))  # in a row
    height = ROW * (3 - (-len(content.names) // keys)) + rows * (HEIGHT + ROW * (words + 1))
    figure = Figure(figsize=(width / 72, height / 72))
    for i, panel in enumerate(panels, 1):
        _panel(figure.add_subplot(rows, columns, i), panel)
    wide = {line.look for panel in panels for line in panel.lines if line.wide}
    looks = [_look(look) | (WIDE if look in wide else {}) for look in range(len(content.names))]
    handles = [
        Line2D([], [], **look, label=clean(name)) for look, name in zip(looks, content.names, strict=True)
    ]
    legend(figure, content.title, handles, keys)
    return figure


def _wrapped(panel: Panel, letters: int) -> Panel:
    """A panel whose words have lines of so many letters."""
    head, _, title = panel.title.rpartition("\n\n")
    lines = "\n".join(_fill(line, letters) for line in title.split("\n"))
    title = f"{_fill(head, letters - 3)}\n\n{lines}".strip()
    notes = [(look, _fill(words, letters - 5)) for look, words in panel.notes]
    levels = [(y, _fill(words, letters - 5)) for y, words in panel.levels]
    return replace(panel, title=title, notes=notes, levels=levels)


def _fill(words: str, letters: int) -> str:
    return textwrap.fill(clean(words), letters)


def legend(figure: Figure, title: str, handles: Sequence[Line2D], columns: int) -> None:
    """The title of a figure, and the names of its looks."""
    title = _fill(title, int(figure.get_figwidth() * 72 / LETTER / 1.3))
    look = {"title_fontproperties": {"weight": "bold", "size": 13}, "alignment": "left", "ncols": columns}
    if title or handles:
        figure.legend(handles=handles, title=title, loc="outside upper left", **look)


def _look(look: int) -> dict[str, Any]:
    """Colour, dashes and marker: a look beyond the style's colours has another one's dashes and marker."""
    cycle = list(matplotlib.rcParams["axes.prop_cycle"])
    return cycle[(look + look // len(cycle)) % len(cycle)] | {"color": cycle[look % len(cycle)]["color"]}


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set(xlabel=clean(panel.x_label), ylabel=_fill(panel.y_label, 34))
    places = _x_axis(axes, panel)
    for line in panel.lines:
        _line(axes, panel, line, places)
    levels = [axes.axhline(y, color=EDGE, linestyle="--", label=words) for y, words in panel.levels]
    _y_axis(axes, panel)
    for x, words in panel.rules:
        axes.axvline(x, color=EDGE, linestyle=":")
        axes.annotate(words, (x, 0), (-3, 4), ("data", "axes fraction"), "offset points", ha="right")
    if panel.shaded is not None:
        axes.set_xlim(left=0)
        axes.axvspan(panel.shaded, max(axes.get_xlim()), color=EDGE, alpha=0.14, linewidth=0)
    if handles := [*(Line2D([], [], **_look(look), label=words) for look, words in panel.notes), *levels]:
        axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1))
    above = 6 + ROW * sum(str(handle.get_label()).count("\n") + 1 for handle in handles)
    head, _, title = panel.title.rpartition("\n\n")
    for words, weight in ((title, "normal"), (head, "bold")):
        axes.annotate(words, (0, 1), (0, above), "axes fraction", "offset points", weight=weight)
        above += ROW * (1 + words.count("\n")) + 3


def _line(axes: Axes, panel: Panel, line: PlotLine, places: dict[Value, float]) -> None:
    """A stroke per stretch of numbers, and marks: everywhere where the panel shows settings."""
    size, every = (6, 1) if panel.settings else (4, -(-len(line.points) // MARKS))
    look = _look(line.look) | {"markersize": size, "markevery": every}
    look |= {"linewidth": 0.8, "alpha": 0.45, "marker": "none"} if line.thin else {"zorder": 3}
    look |= WIDE if line.wide else {}
    for words, stretch in groupby(line.points, key=lambda point: isinstance(point[0], str)):
        points = [(places[x], math.nan if y is None else y) for x, y in stretch]
        axes.plot(*zip(*points, strict=True), **look | ({"linestyle": "none"} if words else {}))


def _x_axis(axes: Axes, panel: Panel) -> dict[Value, float]:
    """Scale and ticks; returns the place of each value: where words were set, all have equal distances."""
    values = {x for line in panel.lines for x, _ in line.points}
    numbers = sorted(x for x in values if not isinstance(x, str))
    if words := sorted(x for x in values if isinstance(x, str)):
        axes.set_xticks(range(len(values)), [*(f"{x:,.6g}" for x in numbers), *map(clean, words)])
        return {x: i for i, x in enumerate([*numbers, *words])}
    axes.xaxis.set_major_formatter(NUMBER)
    if panel.settings and spans(numbers, FACTOR_X):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda x, _: in_powers(x))
    return {x: x for x in numbers}


def _y_axis(axes: Axes, panel: Panel) -> None:
    """Scale and ticks; logarithmic ones are powers of ten, with 2 and 5 times these where the range is small."""
    values = [y for line in panel.lines for _, y in line.points if y is not None]
    if spans(values, FACTOR_Y) and not panel.from_zero:
        axes.set_yscale("log")
        subs = (1, 2, 5) if max(values) / min(values) < 300 else (1,)
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=subs))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
    elif panel.from_zero or min(values, default=1) == 0:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(NUMBER)


def spans(numbers: Sequence[float], factor: float) -> bool:
    """Whether all numbers are above 0 and the largest is more than ``factor`` times the smallest."""
    return bool(numbers) and min(numbers) > 0 and max(numbers) > factor * min(numbers)


def in_powers(value: float) -> str:
    """``512``, ``1K`` for 1024, ``64K``."""
    return f"{value / 1024:,g}K" if value >= 1024 and value % 1024 == 0 else f"{value:,.6g}"
