"""Content of continuous memories and attention over them: one panel per quantity, one line per layer."""

from repro.evidence.compare import Comparison
from repro.record import RunRecord
from repro.report.plots.chart import Chart, Line, Panel
from repro.report.plots.plot import MEMORIES, Plot, caption, file_name

POSITION = "position, from oldest to newest"


def memories(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--<scale>--memory-s<seed>.svg`` per experiment and scale.

    It is of the first seed among the records that count and have profiles.
    """
    plots = []
    for (experiment, scale), selection in comparison.selections.items():
        record = next((candidate for candidate in selection.used if any(candidate.profiles.values())), None)
        if record is not None:
            words = f"continuous memories in one example of the test split, seed {record.seed}"
            chart = by_position(f"{experiment}, scale {scale}, seed {record.seed}", record)
            name = file_name(experiment, scale, f"memory-s{record.seed}")
            plots.append(Plot(name, MEMORIES, caption(experiment, scale, words), chart))
    return plots


def by_position(title: str, record: RunRecord) -> Chart:
    """One figure.

    Args:
        title: above all panels.
        record: one with at least one profile that is not empty, called ``<quantity>/<line>``.
    """
    panels: dict[str, dict[str, list[float]]] = {}
    for name, values in sorted(record.profiles.items()):
        if values:
            quantity, _, line = name.rpartition("/")
            panels.setdefault(quantity, {})[line] = values
    names = sorted({line for lines in panels.values() for line in lines}, key=lambda name: (len(name), name))
    return Chart(title, names, [_panel(quantity, names, lines) for quantity, lines in panels.items()])


def _panel(quantity: str, names: list[str], lines: dict[str, list[float]]) -> Panel:
    drawn = [
        Line(names.index(name), [((i + 0.5) / len(values), y) for i, y in enumerate(values)])
        for name, values in sorted(lines.items())
    ]
    return Panel(POSITION, quantity, drawn, from_zero=True)
