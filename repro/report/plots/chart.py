"""Figures as data, before anything is drawn: their text decides whether a drawing is up to date."""

from collections.abc import Sequence
from dataclasses import dataclass

from repro.evidence.declared.outcomes import Effect

Value = int | float | str
Point = tuple[Value, float | None]


@dataclass(frozen=True)
class PlotLine:
    """A line of a panel.

    Attributes:
        look: index of its colour, dashes and marker: the index of its name in the legend.
        points: from left to right; the line breaks where a value is None, and words are not joined to it.
        thin: drawn faintly, behind the others.
        wide: a broad pale stroke, seen below a line that covers it.
    """

    look: int
    points: Sequence[Point]
    thin: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Panel:
    """A drawing area with its axes, which are logarithmic where settings or values span much.

    Attributes:
        x_label: with the unit.
        y_label: with the unit.
        lines: all lines.
        title: above the drawing area; of several lines, those before an empty one are bold; long ones are broken.
        settings: the x axis shows what was set: numbers, then words, and every point has a marker.
        from_zero: the y axis begins at 0.
        notes: pairs of a look and words, one below the other, under the title.
        rules: vertical lines: x, and the words beside it.
        levels: horizontal dashed lines: y, and words below the notes.
        shaded: x from which the area is shaded.
    """

    x_label: str
    y_label: str
    lines: Sequence[PlotLine]
    title: str = ""
    settings: bool = False
    from_zero: bool = False
    notes: Sequence[tuple[int, str]] = ()
    rules: Sequence[tuple[float, str]] = ()
    levels: Sequence[tuple[float, str]] = ()
    shaded: float | None = None


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


@dataclass(frozen=True)
class Forest:
    """Effects below each other, each as a point with its interval beside the published value.

    Attributes:
        groups: for each test its words, whether it counts, and its effects.
    """

    groups: Sequence[tuple[str, bool, Sequence[Effect]]]
