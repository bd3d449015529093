"""Documents and the picture of the comparisons with the official codes."""

import textwrap
from collections.abc import Callable, Sequence

from repro.evidence import text
from repro.evidence.official import CodeComparison, largest
from repro.report.formats.blocks import Bullets, Document, Figure, Grid, Heading, Paragraph
from repro.report.plots.chart import Chart, Panel, PlotLine
from repro.report.plots.plot import HEADLINES, Plot
from repro.report.views.words import PARAGRAPHS

PICTURE = "parity.svg"
TITLE = "The same function, the same training"
CAPTION = "Losses of training by published codes and by ours, a run of each paper"
HEADER = (
    "Paper", "Code", "Files", "Outputs", "Gradients", "Training runs", "Updates", "Losses", "Final weights",
)  # fmt: skip
LETTERS = 36  # of a line of a panel's title
_EXACT = frozenset(range(2, len(HEADER)))


def summary(found: Sequence[CodeComparison], title: Callable[[str], str] = str) -> Grid:
    """A line for each paper.

    Args:
        found: comparisons.
        title: of a paper, by its key.
    """
    rows = []
    for paper in sorted({met.paper for met in found}):
        mine = [met for met in found if met.paper == paper]
        runs = [met for met in mine if met.updates]
        codes = dict.fromkeys(code for met in mine for code in met.codes)
        rows.append((
            title(paper), ", ".join(codes), str(len(mine) - len(runs)), power(largest(mine, "outputs")),
            power(largest(mine, "gradients")), str(len(runs)), str(sum(met.updates for met in runs)),
            power(largest(runs, "losses")), power(largest(runs, "weights")),
        ))  # fmt: skip
    return Grid(HEADER, tuple(rows), _EXACT)


def picture(found: Sequence[CodeComparison], papers: Sequence[tuple[str, str]]) -> Plot | None:
    """Plots the losses of each paper's first training run, theirs and ours; None if there are none.

    Args:
        found: comparisons.
        papers: keys and titles, in their order.
    """
    panels = []
    for key, title in papers:
        mine = [met for met in found if met.paper == key and met.curve]
        if mine:
            panels.append(_panel(mine[0], title))
    if not panels:
        return None
    chart = Chart(TITLE, ["published code", "ours"], panels)
    caption = f"losses of every update, theirs and ours, of {text.plural(len(panels), 'paper')}"
    return Plot(PICTURE, HEADLINES, caption, chart)


def _panel(met: CodeComparison, title: str) -> Panel:
    theirs, ours = ([(n, loss) for n, loss in enumerate(losses, 1)] for losses in met.curve)
    differences = ", ".join(f"{kind} {power(met.differences[kind])}" for kind in ("losses", "weights"))
    words = f"{textwrap.fill(title, LETTERS)}\n\n{met.codes[0]}\nlargest difference: {differences}"
    return Panel("update", "loss", [PlotLine(0, theirs, wide=True), PlotLine(1, ours)], words)


def document(found: Sequence[CodeComparison], title: Callable[[str], str] = str) -> Document:
    """Every comparison, and what differs by design."""
    blocks: Document = [
        Heading(1, TITLE),
        Paragraph(PARAGRAPHS["parity"]),
        Figure(PICTURE, CAPTION),
        summary(found, title),
    ]
    for paper in sorted({met.paper for met in found}):
        mine = [met for met in found if met.paper == paper]
        rows = tuple((met.file, met.source, str(met.updates or ""), _kinds(met)) for met in mine)
        header = ("File", "Official code", "Updates", "Largest differences")
        blocks += [Heading(2, title(paper)), Grid(header, rows)]
        designed = dict.fromkeys(line for met in mine for line in met.by_design)
        if designed:
            left_out = Paragraph("Differs by design, and is left out of the comparison:")
            blocks += [left_out, Bullets(tuple(designed))]
    return blocks


def _kinds(met: CodeComparison) -> str:
    return ", ".join(f"{kind} {power(value)}" for kind, value in met.differences.items())


def power(value: float | None) -> str:
    """A difference with one digit, like 2e-16."""
    return text.NOTHING if value is None else f"{value:.0e}" if value else "0"
