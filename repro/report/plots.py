"""Every figure of the records, by kind: sweeps, points side by side, drawn pictures, memories, learning curves."""

from pathlib import Path

from repro.report.compare import Comparison
from repro.report.curves import curves
from repro.report.figures import Plot
from repro.report.gallery import gallery
from repro.report.memories import memories
from repro.report.sides import sides
from repro.report.sweeps import sweeps


def plots(comparison: Comparison, runs: Path) -> list[Plot]:
    """All figures, in the order in which a paper's page shows them.

    Args:
        comparison: the records.
        runs: where they lie, ``results/runs``.

    Raises:
        UserError: a record that cannot be drawn as it asks to be.
    """
    return [
        *sweeps(comparison),
        *sides(comparison),
        *gallery(comparison, runs),
        *memories(comparison),
        *curves(comparison),
    ]
