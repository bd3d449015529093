"""Content of continuous memories and attention over them: one panel per quantity, one line per layer."""

from repro.evidence.compare import Comparison
from repro.record import RunRecord
from repro.report.plots.chart import Chart, Panel, PlotLine
from repro.report.plots.plot import MEMORIES, Plot, caption, file_name

POSITION = "position, from oldest to newest"


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
