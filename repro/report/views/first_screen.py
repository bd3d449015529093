"""The first screen: what is shown and what not in a few sentences, a line of rungs for each paper, its tests."""

from collections import Counter
from collections.abc import Iterable, Mapping

import jinja2

from repro.evidence import text
from repro.evidence.declared.outcomes import ORDERS, WAITING
from repro.evidence.published import Paper
from repro.evidence.rungs import JUDGED, Rungs, summarised
from repro.evidence.table import Evidence
from repro.report import parity
from repro.report.formats.blocks import Bullets, Cell, Code, Document, Figure, Grid, Heading, Link, Paragraph
from repro.report.plots.plot import Plot
from repro.report.plots.tested import ALL
from repro.report.views.tests import grid_of_tests
from repro.report.views.words import PARAGRAPHS, WORDS

COMMANDS = """\
pip install -r requirements.lock && pip install --no-deps -e . && repro run attention-is-all-you-need/base --scale cpu
repro list attention-is-all-you-need"""
HEADER = (
    "Paper", "Same function", "Same training", "Same size", "Fair tests, mostly reduced scale",
    "Numbers, paper's scale", "GPU hours left",
)  # fmt: skip


def summary(found: Evidence) -> Document:
    """Returns what the evidence shows, the lines of rungs, and the picture of the training runs that were compared."""
    document: Document = [
        Paragraph(shown(found)),
        rungs_grid(found, found.papers),
        Bullets(tuple(PARAGRAPHS["reading"].splitlines())),
    ]
    trained = any(line.runs for line in found.rungs.values())
    return [*document, Figure(parity.PICTURE, parity.CAPTION)] if trained else document


def overview(found: Evidence, plots: Iterable[Plot] = ()) -> Document:
    """The project in short, the first screen, the picture and the tests of each paper, and the words of verdicts."""
    document: Document = [Heading(1, "repro"), Paragraph(PARAGRAPHS["what"]), Code(COMMANDS), *summary(found)]
    document += [Figure(plot.name, plot.caption) for plot in plots if plot.name == ALL]
    for paper in found.papers:
        document.append(Heading(2, paper.short_title))
        last = {one.test.name for one in summarised(found.tested[paper.key])}
        tested = [one for one in found.tested[paper.key] if one.is_check or one.test.name in last]
        document.append(grid_of_tests(tested) if tested else Paragraph("No test of a claim."))
    words = tuple(f"{word}: {sentence}" for word, sentence in WORDS.items())
    return [*document, Heading(2, "Words"), Bullets(words)]


def shown(found: Evidence) -> str:
    """States in a few sentences what the evidence shows and what it does not show."""
    lines = found.rungs.values()
    tests = sum((Counter(line.tests) for line in lines), Counter())
    numbers = sum((Counter(line.numbers) for line in lines), Counter())
    tested = [one for one in found.tests if not one.is_check]
    every = Counter(one.verdict for one in tested)
    refused = [one for one in tested if one.verdict == "not a fair test"]
    hours = sum(line.gpu_hours or 0 for line in lines)
    return jinja2.Template(PARAGRAPHS["shown"]).render(
        papers=text.plural(len(lines), "paper"),
        met=sum(bool(line.cases and line.runs) for line in lines),
        own=sum(bool(line.cases and line.by_authors) for line in lines),
        fair=_counted(tests, ORDERS) or "none yet",
        waiting=sum(every[word] for word in WAITING),
        planned=every["planned"],
        unfair=text.plural(len(refused), "attempt"),
        refused=sum(bool(one.test.declared) for one in refused),
        untested=text.plural(sum(len(file.untested) for file in found.files.values()), "claim"),
        counted=sum(line.counted for line in lines),
        tested=sum(numbers.values()),
        numbers=_counted(numbers, JUDGED),
        recipes=", ".join(sorted(_reproducing(found))),
        hours=f"{float(f'{hours:.2g}'):,.0f}" if hours else "",
    )


def _counted(verdicts: Mapping[str, int], words: Iterable[str]) -> str:
    """``4 reproduced, 1 open``."""
    return ", ".join(f"{verdicts[word]} {word}" for word in words if verdicts.get(word))


def _reproducing(found: Evidence) -> set[str]:
    """The recipes that gave the counted numbers that are reproduced."""
    good = [e for e in found.comparison.entries.values() if e.is_counted and e.verdict == "reproduced"]
    return {cell.goal.experiment.partition("@")[0] for entry in good for cell in entry.paper_cells[:1]}


def rungs_grid(found: Evidence, papers: Iterable[Paper]) -> Grid:
    """A line for each paper."""
    return Grid(HEADER, tuple(_rungs(paper, found.rungs[paper.key]) for paper in papers), frozenset({6}))


def _rungs(paper: Paper, line: Rungs) -> tuple[Cell, ...]:
    trained = [value for value in (line.losses, line.weights) if value is not None]
    total, numbers = sum(line.tests.values()), _counted(line.numbers, JUDGED)
    worst, other = max(trained, default=None), "" if line.by_authors else " (reimplementation)"
    training = f"{text.plural(line.updates, 'update')}, {parity.power(worst)}{other}"
    explained = f", {line.explained} explained" if line.explained else ""
    return (
        Link(f"{paper.short_title} ({paper.about.year})", f"{paper.key}.html", f"{paper.key}.md"),
        f"{text.plural(line.cases, 'case')}, {parity.power(line.function)}" if line.cases else text.NOTHING,
        training if trained else text.NOTHING,
        f"{line.equal} of {line.sizes}{explained}" if line.sizes else text.NOTHING,
        _counted(line.tests, ORDERS) or (f"none of {total} yet" if total else text.NOTHING),
        f"{numbers}, of {line.counted}" if numbers else f"none of {line.counted} tested",
        f"{line.gpu_hours:,.0f}" if line.gpu_hours else text.NOTHING,
    )
