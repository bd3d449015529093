"""What continuous memories hold and how they are read: one panel per quantity, one line per layer."""

from repro.record import RunRecord
from repro.report.plots.chart import Chart, Line, Panel
from repro.report.plots.plot import MEMORIES, Plot, caption, file_name
from repro.report.results.compare import Comparison

POSITION = "position, from oldest to newest"


def memories(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--<scale>--memory-s<seed>.svg`` per experiment and scale.

    It is of the first seed among the records that count and have profiles.
    """
    found = []
    for (experiment, scale), selection in comparison.selections.items():
        record = next((one for one in selection.used if any(one.profiles.values())), None)
        if record is not None:
            said = f"continuous memories in one example of the test split, seed {record.seed}"
            chart = by_position(f"{experiment}, scale {scale}, seed {record.seed}", record)
            name = file_name(experiment, scale, f"memory-s{record.seed}")
            found.append(Plot(name, MEMORIES, caption(experiment, scale, said), chart))
    return found


def by_position(title: str, record: RunRecord) -> Chart:
    """One figure.

    Args:
        title: above all panels.
        record: one with at least one profile that is not empty, called ``<what>/<line>``.
    """
    panels: dict[str, dict[str, list[float]]] = {}
    for name, values in sorted(record.profiles.items()):
        if values:
            what, _, line = name.rpartition("/")
            panels.setdefault(what, {})[line] = values
    names = sorted({line for lines in panels.values() for line in lines}, key=lambda name: (len(name), name))
    return Chart(title, names, [_panel(what, names, lines) for what, lines in panels.items()])


def _panel(what: str, names: list[str], lines: dict[str, list[float]]) -> Panel:
    drawn = [
        Line(names.index(name), [((i + 0.5) / len(values), y) for i, y in enumerate(values)])
        for name, values in sorted(lines.items())
    ]
    return Panel(POSITION, what, drawn, from_zero=True)
