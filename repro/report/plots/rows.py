"""One panel in which rows are compared: their learning curves, or what was measured against what was set."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from repro.record import RunRecord
from repro.report.plots.chart import FACTOR_Y, Panel, scores, spans
from repro.report.plots.curves import STEPS, curves_of
from repro.report.plots.grid_curves import lines_of
from repro.report.plots.plot import labelled, units_of
from repro.report.plots.sweeps import sweep_panel

LEGIBLE = 15  # up to this number of runs, single seeds are drawn, too
Rows = Mapping[str, Sequence[RunRecord]]


def panel_of(
    rows: Rows, curve: str = "", sweep: str = "", numbers: Mapping[str, str] | None = None
) -> Panel | None:
    """The panel, with the rows' names above it; None where the records have nothing to show.

    Args:
        rows: records by the name of the row.
        curve: of the records, ``val/ppl``; or
        sweep: a measurement by what was set, ``test/accuracy``.
        numbers: shown behind the names.
    """
    panel = _curves(rows, curve) if curve else sweep_panel(rows, sweep)
    if panel is None:
        return None
    shown = numbers or {}
    notes = [(look, f"{name} {shown.get(name, '')}".strip()) for look, name in enumerate(rows)]
    return replace(panel, notes=notes)


def _curves(rows: Rows, name: str) -> Panel | None:
    found = {row: curves_of(tuple(records)).get(name) for row, records in rows.items()}
    legible = sum(map(len, rows.values())) <= LEGIBLE
    lines = [
        line for look, seeds in enumerate(found.values()) if seeds for line in lines_of(look, seeds, legible)
    ]
    units = units_of([record for records in rows.values() for record in records])
    return Panel(STEPS, labelled(name, units), lines, log_y=spans(scores(lines), FACTOR_Y)) if lines else None
