"""A forest of effects, drawn with matplotlib."""

import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.evidence.declared.outcomes import Effect
from repro.evidence.text import clean
from repro.report.plots.chart import Forest
from repro.report.plots.panels import EDGE, WIDTH, legend

TITLE = "All tests of the paper: how far each row is ahead of the next"
ROW, LETTERS, LABEL = 17, 110, 46  # pixels of a line; letters of a line of words, and of a label
LONGEST = 100.0  # per cent: what reaches further is cut, with an arrow at its end
PAPER: dict[str, Any] = {"color": "#c94f00", "marker": "D", "markersize": 4, "linestyle": "none"}
COUNTS: dict[str, Any] = {"color": "#00639c", "marker": "o", "markeredgewidth": 1.2, "linestyle": "none"}
HOLLOW, END = COUNTS | {"markerfacecolor": "#ffffff"}, COUNTS | {"marker": "|"}
LOOKS = {"ours, of a test that counts": COUNTS, "ours, of one that does not": HOLLOW, "the paper's": PAPER}


def forest(content: Forest) -> Figure:
    """The figure: under the words of each test a line for each pair of rows."""
    figure = Figure()
    axes = figure.subplots()
    axes.axvline(0, color=EDGE, linewidth=1)
    y, ticks = 0.0, {}
    for says, counts, group in content.groups:
        head = textwrap.fill(clean(says), LETTERS)
        words = axes.annotate(head, (10, y - 0.5), None, ("figure pixels", "data"), va="top", weight="bold")
        words.set(in_layout=False, backgroundcolor="#ffffff")
        y += head.count("\n") + 1
        for effect in group:
            label = textwrap.fill(clean(" over ".join(effect.rows)), LABEL)
            middle = y + label.count("\n") / 2
            ticks[middle] = label
            _effect(axes, effect, middle, COUNTS if counts else HOLLOW)
            y += label.count("\n") + 1
        y += 0.5
    figure.set_size_inches(WIDTH / 72, (ROW * y + 100) / 72)
    axes.set(ylim=(y - 0.5, -0.7), xlabel="ahead by, %")
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.tick_params("y", length=0, grid_alpha=0)
    axes.grid(axis="x")
    legend(figure, TITLE, [Line2D([], [], **look, label=name) for name, look in LOOKS.items()], 3)
    return figure


def _effect(axes: Axes, effect: Effect, y: float, look: dict[str, Any]) -> None:
    """Draws one line: the interval, our point, the paper's point, and all of them as numbers."""
    possible = ((effect.low, END), (effect.high, END), (effect.ours, look), (effect.published, PAPER))
    marks = [(x, shown) for x, shown in possible if x is not None]
    places = [max(-LONGEST, min(LONGEST, x)) for x, _ in marks]
    if effect.low is not None:
        axes.hlines(y, places[0], places[1], color=look["color"])
    for at, (x, shown) in zip(places, marks, strict=True):
        axes.plot(at, y, **shown | ({} if at == x else {"marker": ">" if x > 0 else "<"}))
    interval = "" if effect.low is None else f" [{effect.low:+.1f}, {effect.high:+.1f}]"
    numbers = "" if effect.ours is None else f"{effect.ours:+.1f}{interval}"
    numbers += "" if effect.published is None else f", paper {effect.published:+.1f}"
    axes.annotate(numbers, (1, y), (8, 0), ("axes fraction", "data"), "offset points", va="center")
