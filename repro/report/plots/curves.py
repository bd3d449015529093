"""Figures of experiments and grids: learning curves of seeds and of points, and sweeps."""

from repro.evidence.compare import Comparison
from repro.report.plots.chart import Chart, Panel
from repro.report.plots.plot import CURVES, SIDES, SWEEPS, Plot, Rows, caption, file_name, grids, over_seeds
from repro.report.plots.rows import curve_panel, measured, metrics_of, sweep_panel


def curves(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--<scale>.svg`` per experiment and scale, of the records that count."""
    plots = []
    for (experiment, scale), selection in comparison.selections.items():
        rows = {f"seed {record.seed}": [record] for record in selection.used}
        if panels := _panels(rows):
            chart = Chart(f"{experiment}, scale {scale}", list(rows), panels)
            words = caption(experiment, scale, "learning curves")
            plots.append(Plot(file_name(experiment, scale), CURVES, words, chart))
    return plots


def grid_curves(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--points--<scale>.svg`` per grid and scale where two points share a curve."""
    plots = []
    for (grid, scale), points in grids(comparison).items():
        rows = {point: records for point, records in points.items() if metrics_of(records)}
        if panels := [panel for panel in _panels(rows) if len({line.look for line in panel.lines}) > 1]:
            chart = Chart(f"{grid}, scale {scale}, {over_seeds(rows)}", list(rows), panels)
            words = caption(grid, scale, f"learning curves of {len(rows)} points, {over_seeds(rows)}")
            plots.append(Plot(file_name(grid, "points", scale), SIDES, words, chart))
    return plots


def sweeps(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--by-<key>--<scale>.svg`` per grid, scale and key: a line for each point."""
    plots = []
    for (grid, scale), points in grids(comparison).items():
        for key in dict.fromkeys(one.key for one in measured(points)):
            rows = {p: r for p, r in points.items() if any(one.key == key for one in measured({p: r}))}
            swept, seeds = [one for one in measured(rows) if one.key == key], over_seeds(rows)
            panels = [sweep_panel(rows, one) for one in swept]
            chart = Chart(f"{grid}, scale {scale}, {seeds}", list(rows), panels)
            names = ", ".join(dict.fromkeys(one.name for one in swept))
            words = caption(grid, scale, f"{names} by {swept[0].x_label}, {seeds}")
            plots.append(Plot(file_name(grid, f"by-{key}", scale), SWEEPS, words, chart))
    return plots


def _panels(rows: Rows) -> list[Panel]:
    names = metrics_of(record for records in rows.values() for record in records)
    return [panel for name in names if (panel := curve_panel(rows, name))]
