"""All figures of the evidence. :mod:`repro.report.crossover` makes that of the study of mixers."""

from repro.evidence.official import read_parity
from repro.evidence.table import Evidence
from repro.report import parity
from repro.report.plots import tested
from repro.report.plots.curves import curves, grid_curves, sweeps
from repro.report.plots.memories import memories
from repro.report.plots.pictures import pictures
from repro.report.plots.plot import Plot


def figures(evidence: Evidence) -> list[Plot]:
    """Returns the data of all figures, each kind in the order of a page.

    Raises:
        UserError: outputs of a run that are damaged.
    """
    comparison = evidence.comparison
    titles = [(paper.key, paper.short_title) for paper in evidence.papers]
    return [
        *tested.pictures(evidence),
        *filter(None, [parity.picture(read_parity(), titles)]),
        *tested.effects(evidence),
        *tested.each_test(evidence),
        *sweeps(comparison),
        *grid_curves(comparison),
        *pictures(comparison),
        *memories(comparison),
        *curves(comparison),
    ]
