"""Panels in which rows are compared: by their learning curves, or by what was measured against what was set.

A measurement is a point of a sweep where its protocol holds ``{"sweep": KEY, "of": NAME, KEY: number or text}``;
``"sweep_unit"`` is the unit of KEY.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

from repro.record import RunRecord
from repro.report.plots.chart import Panel, PlotLine, Point, Value
from repro.report.plots.plot import Rows, labelled

STEPS = "optimiser steps"
VARIANTS = "val/bleu_"  # the same score counted in other ways: curves that hardly differ
LEGIBLE = 15  # up to this number of runs, single seeds are drawn beside their mean

Curve = Sequence[Any]  # pairs of a step or a setting, and a value or None


class Measured(NamedTuple):
    """The content of a panel of a sweep: the setting and the measurement."""

    key: str
    x_label: str
    name: str
    unit: str
    split: str


def panel_of(rows: Rows, curve: str = "", sweep: str = "") -> Panel | None:
    """The panel, with the rows' names above it; None where the records have nothing to show.

    Args:
        rows: records by the name of the row.
        curve: of the records, ``val/ppl``; or
        sweep: a measurement by what was set, ``test/accuracy``.
    """
    swept = (sweep_panel(rows, one) for one in measured(rows) if one.name == sweep)
    panel = curve_panel(rows, curve) if curve else next(swept, None)
    return panel and replace(panel, notes=list(enumerate(rows)))


def curve_panel(rows: Rows, metric: str) -> Panel | None:
    """Plots one curve of some rows, a line each; None where no record has it."""
    curves = [[c for r in records if _is_drawn(c := r.curves.get(metric, []))] for records in rows.values()]
    lines = _lines(curves)
    return Panel(STEPS, labelled(metric, rows), lines) if lines else None


def sweep_panel(rows: Rows, sweep: Measured) -> Panel:
    """Plots one measurement of some rows over a setting, a line each; percentages from 0."""
    curves = [[curve for r in records if (curve := _swept(r, sweep))] for records in rows.values()]
    label = f"{sweep.name} ({sweep.unit})"
    return Panel(sweep.x_label, label, _lines(curves), settings=True, from_zero=sweep.unit == "percent")


def metrics_of(records: Iterable[RunRecord]) -> list[str]:
    """The curves worth a panel: the training loss, then the validation scores; of the ways to count BLEU the first.

    A run of one update has none.
    """
    trained = [record for record in records if record.steps > 1]
    names = {name for record in trained for name, curve in record.curves.items() if _is_drawn(curve)}
    drawn = (name for name in names if name == "train/loss" or name.startswith("val/"))
    return sorted(n for n in drawn if not (n.startswith(VARIANTS) and VARIANTS.removesuffix("_") in names))


def measured(rows: Rows) -> list[Measured]:
    """Returns the sweeps of some rows."""
    return list(dict.fromkeys(one for records in rows.values() for one, _, _ in _points(records)))


def _points(records: Iterable[RunRecord]) -> Iterator[tuple[Measured, Value, float]]:
    """Yields the points of a record's sweeps: the sweep, the setting and the measured number."""
    for m in (m for record in records for m in record.metrics):
        key, name, unit = (m.protocol.get(word) for word in ("sweep", "of", "sweep_unit"))
        x = m.protocol.get(str(key))
        if isinstance(key, str) and isinstance(name, str) and isinstance(x, int | float | str):
            place = Measured(key, f"{key} ({unit})" if unit else key, name, m.unit, m.split)
            yield place, str(x).lower() if isinstance(x, bool) else x, m.value


def _swept(record: RunRecord, sweep: Measured) -> list[tuple[Value, float]]:
    """Returns the points of a record in a sweep: numbers first, then words."""
    points = [(x, y) for one, x, y in _points([record]) if one == sweep]
    return sorted(points, key=lambda point: (isinstance(point[0], str), point[0]))


def _lines(rows: Sequence[Sequence[Curve]]) -> list[PlotLine]:
    """The mean over the seeds of each row, and each seed where it is legible or where they have no place in common."""
    lines = list[PlotLine]()
    for index, seeds in enumerate(rows):
        mean = mean_curve(seeds)
        if not _is_drawn(mean) or (len(seeds) > 1 and sum(map(len, rows)) <= LEGIBLE):
            lines += [PlotLine(index, [(x, y) for x, y in curve], thin=True) for curve in seeds]
        lines += [PlotLine(index, mean)] if _is_drawn(mean) else []
    return lines


def mean_curve(curves: Sequence[Curve]) -> list[Point]:
    """Averages curves at their common places; None where a curve has no value (its run diverged)."""
    first, *others = [dict(curve) for curve in curves] or [{}]
    shared = {
        x: [y, *(other[x] for other in others)] for x, y in first.items() if all(x in o for o in others)
    }
    return [(x, None if None in values else fmean(values)) for x, values in shared.items()]


def _is_drawn(curve: Curve) -> bool:
    return any(value is not None for _, value in curve)
