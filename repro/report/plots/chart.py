"""A figure as data: panels of lines, before anything is drawn. Its JSON decides whether a drawing is up to date."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Value = int | float | str
Point = tuple[Value, float | None]

COLUMNS = 3  # panels in a row
FACTOR_X, FACTOR_Y = 8, 30  # an axis is logarithmic where its values span more


@dataclass(frozen=True)
class Line:
    """A line of a panel.

    Attributes:
        look: index of its colour, dashes and marker: the index of its name in the legend.
        points: from left to right; the line breaks where a value is None, and words are not joined to it.
        dots: the values of single seeds, which the points are means of.
        thin: drawn faintly, behind the others.
    """

    look: int
    points: Sequence[Point]
    dots: Sequence[tuple[Value, float]] = ()
    thin: bool = False


@dataclass(frozen=True)
class Panel:
    """A drawing area with its axes.

    Attributes:
        x_label: with the unit.
        y_label: with the unit.
        lines: all lines.
        title: above the drawing area; of several lines, those before an empty one are bold.
        settings: the x axis shows what was set: numbers, then words, and every point has a marker.
        log_x: logarithm to base 2.
        log_y: logarithm to base 10.
        from_zero: the y axis begins at 0.
        notes: pairs of a look and words, one below the other, under the title.
        rules: vertical lines: x, and the words beside it.
    """

    x_label: str
    y_label: str
    lines: Sequence[Line]
    title: str = ""
    settings: bool = False
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = False
    notes: Sequence[tuple[int, str]] = ()
    rules: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Chart:
    """Panels side by side with one legend.

    Attributes:
        title: above all panels.
        names: of the looks, for the legend.
        panels: at least one.
    """

    title: str
    names: Sequence[str]
    panels: Sequence[Panel]

    def as_json(self) -> str:
        """Canonical JSON: the same data give the same text."""
        return json.dumps(self, default=vars, sort_keys=True, separators=(",", ":"))


def spans(values: Iterable[Value | None], factor: float) -> bool:
    """Whether all numbers are above 0 and the largest is more than ``factor`` times the smallest."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return bool(numbers) and min(numbers) > 0 and max(numbers) > factor * min(numbers)


def scores(lines: Iterable[Line]) -> list[float]:
    """Every y value of some lines."""
    return [y for line in lines for _, y in (*line.points, *line.dots) if y is not None]
