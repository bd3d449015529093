"""Every figure of the records, by kind: sweeps, points side by side, pictures, memories, learning curves."""

from pathlib import Path

from repro.evidence.compare import Comparison
from repro.evidence.parity import read_parity
from repro.evidence.table import Evidence
from repro.paths import records_dirs
from repro.report import parity
from repro.report.plots.curves import curves
from repro.report.plots.grid_curves import grid_curves
from repro.report.plots.memories import memories
from repro.report.plots.pictures import pictures
from repro.report.plots.plot import Plot
from repro.report.plots.sweeps import sweeps


def figures(found: Evidence) -> list[Plot]:
    """All figures; nothing is drawn yet."""
    titles = [(paper.key, paper.title.partition(":")[0]) for paper in found.papers]
    trained = parity.picture(read_parity(), titles)
    return [*plots(found.comparison, *records_dirs()), *([trained] if trained else [])]


def plots(comparison: Comparison, *runs: Path) -> list[Plot]:
    """All figures, in the order in which a paper's page shows them; nothing is drawn yet.

    Args:
        comparison: the records.
        runs: their folders, ``results/runs``.

    Raises:
        UserError: a record that cannot be drawn as it asks to be.
    """
    return [
        *sweeps(comparison),
        *grid_curves(comparison),
        *pictures(comparison, *runs),
        *memories(comparison),
        *curves(comparison),
    ]
