"""Comparisons with the official codes, from ``results/parity.json``, which ``python -m tests.parity.write`` makes."""

import hashlib
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro import text
from repro.errors import UserError
from repro.paths import SHARED, results_dirs
from repro.report.formats.blocks import Bullets, Document, Figure, Grid, Heading, Paragraph
from repro.report.plots.chart import Chart, Line, Panel
from repro.report.plots.plot import HEADLINES, Plot

FILE, PICTURE = "parity.json", "parity.svg"
GOLDEN = SHARED / "tests" / "golden"  # of a checkout
REGENERATE = "`python -m tests.parity.write` compares again and writes the summary"
TITLE = "The same function, the same training"
SAYS = (
    "With the weights and inputs of the official codes, our models give their outputs and gradients. On their batches, "
    "our committed recipes train as they do: loss, gradient norm and rate of every update, and the final weights. "
    "Recipes are only shrunk; `repro parity` names the exceptions. Cells are largest differences, relative where "
    "numbers exceed 1, without dropout, in float64 (one kernel of the linear transformers' code exists in float32 "
    "only). Deliberate mistakes in the tests of training give 4e-7 or more."
)
CAPTION = "Losses of training by the official codes and by ours"
HEADER = (
    "Paper",
    "Official code",
    "Files",
    "Outputs",
    "Gradients",
    "Training runs",
    "Updates",
    "Losses",
    "Final weights",
)
LETTERS = 36  # of a line of a panel's title
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{7}")
_PACKAGE = re.compile(r"(?:transformers|torch|fairseq) \d+(?:\.\d+)+")
_EXACT = frozenset(range(2, len(HEADER)))


@dataclass(frozen=True)
class Met:
    """A file of numbers of an official code, compared with ours.

    Attributes:
        paper: key of the paper.
        file: below ``tests/golden``.
        sha256: of the file that was compared.
        source: repository, commit and files of the official code.
        updates: of training; 0 for a single pass.
        differences: the largest by kind: ``outputs``, ``gradients``, ``losses``, ``norms``, ``rates``, ``weights``, ...
        by_design: what differs on purpose and was left out of the comparison.
        curve: loss of every update, theirs and ours; empty for a single pass.
    """

    paper: str
    file: str
    sha256: str
    source: str
    updates: int
    differences: dict[str, float]
    by_design: tuple[str, ...]
    curve: list[list[float]]

    @property
    def codes(self) -> list[str]:
        """Repositories with commits, or packages with versions."""
        return _REPOSITORY.findall(self.source) or _PACKAGE.findall(self.source)


def read_parity(paper: str | None = None) -> list[Met]:
    """The comparisons of a paper, or of all; none where no folder of results has the file.

    Raises:
        UserError: the file is damaged.
    """
    path = next((file for folder in results_dirs() if (file := folder / FILE).is_file()), None)
    if path is None:
        return []
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        found = [Met(**{**row, "by_design": tuple(row["by_design"])}) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is damaged: {error!s:.80}; {REGENERATE}") from None
    return [met for met in found if paper in (None, met.paper)]


def altered(found: Iterable[Met], golden: Path = GOLDEN) -> list[str]:
    """Files that are not those that were compared, a line each; none where a wheel has no golden files."""
    if not golden.is_dir():
        return []
    lines = []
    for met in found:
        path = golden / met.file
        if not path.is_file():
            lines.append(f"tests/golden/{met.file} is missing; {REGENERATE}")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != met.sha256:
            lines.append(f"tests/golden/{met.file} is not the file that was compared; {REGENERATE}")
    return lines


def summary(found: Sequence[Met], title: Callable[[str], str] = str) -> Grid:
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
            title(paper), ", ".join(codes), str(len(mine) - len(runs)), _worst(mine, "outputs"),
            _worst(mine, "gradients"), str(len(runs)), str(sum(met.updates for met in runs)),
            _worst(runs, "losses"), _worst(runs, "weights"),
        ))  # fmt: skip
    return Grid(HEADER, tuple(rows), _EXACT)


def picture(found: Sequence[Met], papers: Sequence[tuple[str, str]]) -> Plot | None:
    """For each paper the losses of its first training run, theirs and ours; None where there is none.

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
    chart = Chart(TITLE, ["official code", "ours"], panels)
    return Plot(
        PICTURE,
        HEADLINES,
        f"losses of every update, theirs and ours, of {text.plural(len(panels), 'paper')}",
        chart,
    )


def _panel(met: Met, title: str) -> Panel:
    theirs, ours = ([(n, loss) for n, loss in enumerate(losses, 1)] for losses in met.curve)
    differences = ", ".join(f"{kind} {_number(met.differences[kind])}" for kind in ("losses", "weights"))
    words = f"{textwrap.fill(title, LETTERS)}\n\n{met.codes[0]}\nlargest difference: {differences}"
    return Panel("update", "loss", [Line(0, theirs), Line(1, ours)], words)


def document(found: Sequence[Met], title: Callable[[str], str] = str) -> Document:
    """Every comparison, and what differs by design."""
    blocks: Document = [Heading(1, TITLE), Paragraph(SAYS), Figure(PICTURE, CAPTION), summary(found, title)]
    for paper in sorted({met.paper for met in found}):
        mine = [met for met in found if met.paper == paper]
        rows = tuple((met.file, met.source, str(met.updates or ""), _kinds(met)) for met in mine)
        blocks += [
            Heading(2, title(paper)),
            Grid(("File", "Official code", "Updates", "Largest differences"), rows),
        ]
        designed = dict.fromkeys(line for met in mine for line in met.by_design)
        if designed:
            blocks += [
                Paragraph("Differs by design, and is left out of the comparison:"),
                Bullets(tuple(designed)),
            ]
    return blocks


def _kinds(met: Met) -> str:
    return ", ".join(f"{kind} {_number(value)}" for kind, value in met.differences.items())


def _worst(found: Iterable[Met], kind: str) -> str:
    values = [met.differences[kind] for met in found if kind in met.differences]
    return _number(max(values)) if values else text.NOTHING


def _number(value: float) -> str:
    return f"{value:.0e}" if value else "0"
