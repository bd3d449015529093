"""Figures of recorded runs: learning curves, sweeps, and what continuous memories hold."""

from repro.evidence.compare import Comparison
from repro.record import RunRecord
from repro.report.plots.chart import Chart, Panel, PlotLine
from repro.report.plots.plot import CURVES, MEMORIES, SWEEPS, Plot, caption, file_name, grids, over_seeds
from repro.report.plots.rows import curve_panel, measured, metrics_of, sweep_panel

POSITION = "position, from oldest to newest"


def curves(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--<scale>.svg`` per recipe and scale: a line for each point of its grid."""
    plots = []
    for (grid, scale), points in grids(comparison).items():
        rows = {point: records for point, records in points.items() if metrics_of(records)}
        names = metrics_of(record for records in rows.values() for record in records)
        if panels := [panel for name in names if (panel := curve_panel(rows, name))]:
            chart = Chart(f"{grid}, scale {scale}, {over_seeds(rows)}", list(rows), panels)
            words = caption(grid, scale, f"learning curves, {over_seeds(rows)}")
            plots.append(Plot(file_name(grid, scale), CURVES, words, chart))
    return plots


def sweeps(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--by-<key>--<scale>.svg`` per recipe, scale and key: a line for each point."""
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


def memories(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--<scale>--memory-s<seed>.svg`` per experiment and scale.

    It is of the first seed among the records that count and have profiles.
    """
    plots = []
    for (experiment, scale), selection in comparison.selections.items():
        for record in [record for record in selection.used if any(record.profiles.values())][:1]:
            words = f"continuous memories in one example of the test split, seed {record.seed}"
            name = file_name(experiment, scale, f"memory-s{record.seed}")
            plots.append(Plot(name, MEMORIES, caption(experiment, scale, words), by_position(record)))
    return plots


def by_position(record: RunRecord) -> Chart:
    """The profiles of a record, which are called ``<quantity>/<line>``; at least one is not empty."""
    profiles = {n.rpartition("/")[::2]: values for n, values in sorted(record.profiles.items()) if values}
    names = sorted({line for _, line in profiles}, key=lambda name: (len(name), name))
    panels: dict[str, list[PlotLine]] = {}
    for (quantity, line), values in profiles.items():
        points = [((i + 0.5) / len(values), y) for i, y in enumerate(values)]
        panels.setdefault(quantity, []).append(PlotLine(names.index(line), points))
    title = f"{record.experiment}, scale {record.scale}, seed {record.seed}"
    return Chart(title, names, [Panel(POSITION, q, lines, from_zero=True) for q, lines in panels.items()])
