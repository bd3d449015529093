"""A figure: its file name, its caption and the data that it shows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro.evidence import text
from repro.evidence.compare import Comparison
from repro.record import RunRecord
from repro.report.plots.chart import Chart, Forest

SWEEPS = "Sweeps"
MEMORIES = "Continuous memories"
CURVES = "Learning curves"
HEADLINES = "Headlines"  # on the first screen and in the README
TESTS = "Tests of claims"  # on the page of a test
EFFECTS = "Effects"  # at the head of a paper's page
# How each kind is to be read, in the order in which a paper's page shows them.
KINDS = {
    SWEEPS: "Lines are points of the grid: means over seeds; thin lines are seeds.",
    CURVES: "Lines are points of the grid: means over seeds at the steps that all have; thin lines are seeds.",
    MEMORIES: "What continuous memories hold in one test example, and where its last queries attend; lines are layers.",
}
UNITS = {"loss": "nats per token", "nll": "nats per token", "ppl": "perplexity", "bleu": "BLEU"}

Rows = Mapping[str, Sequence[RunRecord]]  # records by the name of the row, the point or the seed


@dataclass(frozen=True)
class Plot:
    """A figure.

    Attributes:
        name: of its file in ``results/plots``; begins with ``<paper>--``.
        kind: one of :data:`KINDS`.
        caption: one line.
    """

    name: str
    kind: str
    caption: str
    content: Chart | Forest


def file_name(experiment: str, *parts: str) -> str:
    """Returns ``<paper>--<recipe>--<part>.svg``; characters other than ``@`` that file names lack become dashes."""
    cleaned = (re.sub(r"[^A-Za-z0-9._@+-]+", "-", part) for part in parts)
    return f"{'--'.join([experiment.replace('/', '--'), *cleaned])}.svg"


def caption(experiment: str, scale: str, words: str) -> str:
    """``toy · big · cpu: learning curves``."""
    return f"{experiment.replace('/', ' · ')} · {scale}: {words}"


def grid_of(experiment: str) -> str:
    """The recipe of a point."""
    return experiment.partition("@")[0]


def grids(comparison: Comparison) -> dict[tuple[str, str], dict[str, Sequence[RunRecord]]]:
    """Groups the records that count by recipe and scale, then by point; a recipe without a grid has one point."""
    by_recipe: dict[tuple[str, str], dict[str, Sequence[RunRecord]]] = {}
    for (experiment, scale), selection in comparison.selections.items():
        if selection.used:
            point = experiment.partition("@")[2] or experiment.rpartition("/")[2]
            by_recipe.setdefault((grid_of(experiment), scale), {})[point] = selection.used
    return by_recipe


def labelled(metric: str, rows: Rows) -> str:
    """Returns a metric with its unit in the records."""
    known = {m.name.split("/")[-1]: m.unit for records in rows.values() for r in records for m in r.metrics}
    unit = (UNITS | known).get(metric.split("/")[-1])
    return f"{metric} ({unit})" if unit else metric


def over_seeds(rows: Rows) -> str:
    """``1 seed``, ``3 seeds`` or ``1 to 3 seeds``."""
    least, *_, most = sorted([len(records) for records in rows.values()] * 2)
    return text.plural(most, "seed") if least == most else f"{least} to {most} seeds"
