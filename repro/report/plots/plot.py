"""A figure: its file name, its caption and the data that it shows."""

import re
from dataclasses import dataclass

from repro import text
from repro.contact_sheet import Picture
from repro.record import RunRecord
from repro.report.plots.chart import Chart

SWEEPS = "Sweeps"
SIDES = "Points of a grid side by side"
DRAWN = "Drawn by the models"
MEMORIES = "Continuous memories"
CURVES = "Learning curves"
HEADLINES = "Headlines"  # on the first screen and in the README, not on a paper's page
# How each kind is to be read, in the order in which a paper's page shows them.
KINDS = {
    SWEEPS: "Lines are points of the grid: means over seeds, with a dot for each seed where there are several.",
    SIDES: "Lines are points of the grid: means over seeds at the steps that all have; thin lines are seeds.",
    DRAWN: "What the trained models drew: a sheet for each recorded run.",
    MEMORIES: "What continuous memories hold in one example of the test split, and where the attention of its last "
    "queries falls (means over heads and queries). Positions go from the oldest token to the newest; lines are layers.",
    CURVES: "",
}
UNITS = {"loss": "nats per token", "nll": "nats per token", "ppl": "perplexity", "bpc": "bits per character",
         "bpb": "bits per byte", "bpd": "bits per dimension", "bleu": "BLEU"}  # fmt: skip


@dataclass(frozen=True)
class Plot:
    """A figure.

    Attributes:
        name: of its file in ``results/plots``; begins with ``<paper>--``.
        kind: one of :data:`KINDS`.
        caption: one line.
        content: a chart, drawn as SVG, or pictures of one shape, shown on a sheet as PNG.
    """

    name: str
    kind: str
    caption: str
    content: Chart | list[Picture]

    @property
    def library(self) -> str:
        """The library that draws it."""
        return "matplotlib" if isinstance(self.content, Chart) else "pillow"


def file_name(experiment: str, *parts: str, suffix: str = "svg") -> str:
    """``<paper>--<recipe>--<part>.svg``; ``@`` of a grid's point stays, what no file name holds becomes a dash."""
    cleaned = (re.sub(r"[^A-Za-z0-9._@+-]+", "-", part) for part in parts)
    return f"{'--'.join([experiment.replace('/', '--'), *cleaned])}.{suffix}"


def caption(experiment: str, scale: str, words: str) -> str:
    """``toy · big · cpu: learning curves``."""
    return f"{experiment.replace('/', ' · ')} · {scale}: {words}"


def grid_of(experiment: str) -> str:
    """The recipe of a point."""
    return experiment.partition("@")[0]


def point_of(experiment: str) -> str:
    """The name of a point within its grid; a recipe without a grid is its own only point."""
    return experiment.partition("@")[2] or experiment.rpartition("/")[2]


def units_of(records: list[RunRecord]) -> dict[str, str]:
    """Units by the last part of a metric's name."""
    return {**UNITS, **{m.name.split("/")[-1]: m.unit for r in records for m in r.metrics}}


def labelled(metric: str, units: dict[str, str]) -> str:
    """A metric with its unit."""
    unit = units.get(metric.split("/")[-1])
    return f"{metric} ({unit})" if unit else metric


def over_seeds(counts: list[int]) -> str:
    """``1 seed``, ``means of 3 seeds`` or ``means of 1 to 3 seeds``."""
    low, high = min(counts), max(counts)
    if high == 1:
        return "1 seed"
    return f"means of {low} to {high} seeds" if low < high else f"means of {text.plural(high, 'seed')}"
