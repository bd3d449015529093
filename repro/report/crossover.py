"""The study of all mixers on the same bytes: runs of ``configs/crossover`` beside measured speed and memory."""

from dataclasses import dataclass
from typing import Any

from repro.evidence import text
from repro.evidence.compare import Comparison
from repro.evidence.judging.statistics import estimate
from repro.files import read_rows
from repro.record import RunRecord
from repro.report.formats.blocks import Bullets, Document, Figure, Grid, Heading, Paragraph
from repro.report.plots.chart import Chart, Panel, PlotLine
from repro.report.plots.plot import CURVES, Plot
from repro.report.views.words import PARAGRAPHS

GRID, SCALE = "crossover/bytes", "small"
FILE, PICTURE = "crossover.jsonl", "crossover.svg"
TITLE = "Which mixer when"
SEGMENTS, NEAR = "test/bpb", "test/bpb_near"


@dataclass(frozen=True)
class Crossover:
    """The study's runs by mixer, and what was measured of each at several contexts.

    Attributes:
        runs: judged runs of each mixer, in the order of the recipe.
        cells: lines of ``crossover.jsonl``.
    """

    runs: dict[str, tuple[RunRecord, ...]]
    cells: list[dict[str, Any]]

    @property
    def contexts(self) -> list[int]:
        """The contexts that were measured, shortest first."""
        return sorted({cell["context"] for cell in self.cells})

    def by_context(self, mixer: str, cost: str, key: str) -> list[tuple[int, float | None]]:
        """Returns a number of ``crossover.jsonl`` for each context; None where it is missing."""
        cells = [cell for cell in self.cells if (cell["mixer"], cell["what"]) == (mixer, cost)]
        values = {cell["context"]: cell[key] for cell in reversed(cells)}
        return [(context, values.get(context)) for context in self.contexts]

    def bits(self, mixer: str, name: str) -> list[float]:
        """A score of each run of a mixer."""
        measured = (record.metric(name) for record in self.runs[mixer])
        return [one.value for one in measured if one is not None]


def crossover(comparison: Comparison) -> Crossover | None:
    """Reads the study; None without records."""
    chosen = {
        name.partition("@")[2]: selection.used
        for (name, scale), selection in comparison.selections.items()
        if name.startswith(f"{GRID}@") and scale == SCALE and selection.used
    }
    cells = read_rows(FILE, "`python -m benchmarks.crossover` makes it anew", dict[str, Any])
    return Crossover(chosen, cells) if chosen else None


def document(study: Crossover) -> Document:
    """``crossover.md``: scores, speeds, memory, and the picture."""
    blocks: Document = [Heading(1, TITLE), Paragraph(PARAGRAPHS["crossover"]), scores(study)]
    if study.cells:
        blocks.append(Paragraph(PARAGRAPHS["crossover costs"]))
        blocks.extend(costs(study))
        blocks.extend((Bullets(machines(study)), Figure(PICTURE, TITLE)))
    return blocks


def scores(study: Crossover) -> Grid:
    """Bits per byte of each mixer, best first, with the time of its runs."""
    best = {mixer: estimate(study.bits(mixer, NEAR)).mean for mixer in study.runs}
    rows = []
    for mixer in sorted(study.runs, key=lambda name: best[name]):
        records = study.runs[mixer]
        near, segments = (text.plus_minus(estimate(study.bits(mixer, name))) for name in (NEAR, SEGMENTS))
        minutes = text.duration(sum(record.wall_seconds for record in records) / len(records))
        rows.append((mixer, near, segments, str(len(records)), text.count(records[0].parameters), minutes))
    header = ("Mixer", "Bits per byte", "In inputs as trained on", "n", "Parameters", "Time of a run")
    return Grid(header, tuple(rows), frozenset(range(1, len(header))))


COSTS = {
    "Training, bytes/s": ("training", "tokens_per_s"),
    "Training, MiB": ("training", "mib"),
    "Generation, bytes/s": ("generation", "tokens_per_s"),
    "State of generation, MiB": ("generation", "mib"),
}


def costs(study: Crossover) -> list[Grid]:
    """A table of each cost: mixers by context."""
    mixers = list(dict.fromkeys(cell["mixer"] for cell in study.cells))
    grids = []
    for title, (cost, key) in COSTS.items():
        values = {mixer: study.by_context(mixer, cost, key) for mixer in mixers}
        rows = tuple((mixer, *(_three(value) for _, value in line)) for mixer, line in values.items())
        header = (title, *(f"{context:,}" for context in study.contexts))
        grids.append(Grid(header, rows, frozenset(range(1, len(header)))))
    return grids


def _three(value: float | None) -> str:
    """Three digits."""
    return text.NOTHING if value is None else f"{float(f'{value:.3g}'):,.15g}"


def machines(study: Crossover) -> tuple[str, ...]:
    """States where and when speed and memory were measured, and which cells had a busy machine."""
    lines = dict.fromkeys(f"{c['machine']}, {c['threads']} threads, {c['date']}" for c in study.cells)
    busy = sum(not cell["quiet"] for cell in study.cells)
    if not busy:
        return tuple(lines)
    return *lines, f"others used the machine during {busy} of {len(study.cells)} measurements"


def picture(study: Crossover) -> Plot:
    """Bits per byte against the speed of training, then each cost against the context. The study must have cells."""
    mixers = list(study.runs)
    points = [
        PlotLine(index, [(speed, estimate(study.bits(mixer, NEAR)).mean)])
        for index, mixer in enumerate(mixers)
        if (speed := study.by_context(mixer, "training", "tokens_per_s")[0][1])
    ]
    speeds = f"training, bytes/s at a context of {study.contexts[0]:,}"
    panels = [Panel(speeds, "bits per byte", points, settings=True)]
    for title, (cost, key) in COSTS.items():
        lines = [PlotLine(i, study.by_context(mixer, cost, key)) for i, mixer in enumerate(mixers)]
        panels.append(Panel("context, bytes", title, lines, settings=True))
    caption = "mixers by bits per byte, speed and memory"
    return Plot(PICTURE, CURVES, caption, Chart(TITLE, mixers, panels))
