"""Learning curves of a grid's points side by side: one panel per metric, one line per point."""

from typing import Any

from repro.evidence.compare import Comparison
from repro.record import RunRecord
from repro.report.plots.chart import FACTOR_Y, Chart, Line, Panel, scores, spans
from repro.report.plots.curves import STEPS, Curve, Curves, curves_of
from repro.report.plots.plot import (
    SIDES,
    Plot,
    caption,
    file_name,
    grid_of,
    labelled,
    over_seeds,
    point_of,
    units_of,
)

LEGIBLE = 4  # up to this number of points, single seeds are drawn, too


def grid_curves(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--points--<scale>.svg`` per grid and scale where two points share a curve."""
    grids: dict[tuple[str, str], dict[str, tuple[RunRecord, ...]]] = {}
    for (experiment, scale), selection in comparison.selections.items():
        if "@" in experiment and selection.used:
            grids.setdefault((grid_of(experiment), scale), {})[point_of(experiment)] = selection.used
    plots = []
    for (grid, scale), points in grids.items():
        shared = {point: curves_of(records) for point, records in points.items()}
        shared = {point: metrics for point, metrics in shared.items() if metrics}
        units = units_of([record for records in points.values() for record in records])
        panels = _panels(shared, units)
        if panels:
            seeds = over_seeds([len(points[point]) for point in shared])
            chart = Chart(f"{grid}, scale {scale}, {seeds}", list(shared), panels)
            words = caption(grid, scale, f"learning curves of {len(shared)} points side by side, {seeds}")
            plots.append(Plot(file_name(grid, "points", scale), SIDES, words, chart))
    return plots


def _panels(points: dict[str, Curves], units: dict[str, str]) -> list[Panel]:
    """A panel for each metric that at least two points have."""
    names = sorted({name for metrics in points.values() for name in metrics})
    panels = []
    for name in names:
        shown = {look: metrics[name] for look, metrics in enumerate(points.values()) if name in metrics}
        if len(shown) < 2:
            continue
        lines = [
            line for look, seeds in shown.items() for line in lines_of(look, seeds, len(points) <= LEGIBLE)
        ]
        log_y = spans(scores(lines), FACTOR_Y)
        panels.append(Panel(STEPS, labelled(name, units), lines, log_y=log_y))
    return panels


def lines_of(look: int, seeds: dict[int, Curve], legible: bool) -> list[Line]:
    """The mean of a point's seeds, and each of them where it is legible or where they have no step in common."""
    mean = mean_curve(list(seeds.values()))
    single = [Line(look, [(x, y) for x, y in curve], thin=True) for curve in seeds.values()]
    if not any(y is not None for _, y in mean):
        return single
    return [Line(look, mean)] if len(single) == 1 or not legible else [*single, Line(look, mean)]


def mean_curve(curves: list[Curve]) -> list[tuple[float, float | None]]:
    """Means at the steps that all curves have; None where one of them has no value (its run diverged)."""
    tables: list[dict[Any, Any]] = [dict(curve) for curve in curves]
    mean: list[tuple[float, float | None]] = []
    for step in sorted(set.intersection(*(set(table) for table in tables))):
        values = [table[step] for table in tables]
        mean.append((step, None if None in values else sum(values) / len(values)))
    return mean
