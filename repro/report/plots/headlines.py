"""The first screen's figures: for each paper the panel of its headline claim, and all of them in one picture."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from repro import text
from repro.evidence.claims import Claim, evidence
from repro.evidence.published import Paper
from repro.report.formats.claims_document import stated
from repro.report.plots.chart import COLUMNS, Chart, Panel
from repro.report.plots.plot import HEADLINES, Plot, caption, file_name
from repro.report.plots.rows import panel_of

OVERVIEW = "overview.svg"
LETTERS = 46  # in a line above a panel


def headline_of(claims: list[Claim], paper: Paper) -> Claim | None:
    """The claim that stands for a paper, at the scale that says most; None where none is declared."""
    return evidence(claims, paper.key, paper.headline.trend) if paper.headline else None


def headlines(papers: list[Paper], claims: list[Claim]) -> list[Plot]:
    """A figure ``<paper>--headline.svg`` for each headline with records, and ``overview.svg`` with all of them."""
    plots, panels = [], []
    for paper in in_order(papers):
        claim = headline_of(claims, paper)
        panel = _panel(claim) if claim else None
        if claim and panel:
            words = caption(paper.key, claim.scale or "", claim.trend.claim)
            plots.append(Plot(headline_name(paper), HEADLINES, words, Chart("", [], [panel])))
            panels.append((panel, claim))
    if panels:
        heads = f"the headline claims of {text.plural(len(panels), 'paper')} with their verdicts"
        drawn = [
            panel
            for row in (panels[i : i + COLUMNS] for i in range(0, len(panels), COLUMNS))
            for panel in _level(row)
        ]
        plots.append(Plot(OVERVIEW, HEADLINES, heads, Chart("Do the published results hold?", [], drawn)))
    return plots


def in_order(papers: list[Paper]) -> list[Paper]:
    """The papers by year."""
    return sorted(papers, key=lambda paper: (paper.year, paper.key))


def headline_name(paper: Paper) -> str:
    """The file of a paper's figure."""
    return file_name(paper.key, "headline")


def _panel(claim: Claim) -> Panel | None:
    """What the published file asks for of the rows that have records; rows of one experiment are one line."""
    shown = claim.paper.headline
    standings = [s for s in claim.standings if s.sample and s.estimate]
    if shown is None or not standings:
        return None
    rows, numbers, seen = {}, {}, set()
    for standing in standings:
        assert standing.sample is not None
        experiment = standing.sample.wanted.experiment
        if experiment not in seen:
            seen.add(experiment)
            number = text.plus_minus(standing.estimate)
            fits = len(standing.label) + len(number) < LETTERS
            name = standing.label if fits else standing.row
            rows[name], numbers[name] = standing.sample.records, number
    panel = panel_of(rows, shown.curve, shown.sweep, numbers)
    if panel is None or len(rows) > 1:
        return panel
    return replace(panel, notes=())  # the line itself shows its numbers


def _level(row: Sequence[tuple[Panel, Claim]]) -> list[Panel]:
    """The panels of one row with their titles, which begin at one height."""
    lines = [_title(claim).count("\n") + len(panel.notes) for panel, claim in row]
    return [
        replace(panel, title=_title(claim, max(lines) - own))
        for (panel, claim), own in zip(row, lines, strict=True)
    ]


def _title(claim: Claim, free: int = 0) -> str:
    """The paper, its claim, and what became of it, which a number of free lines move down."""
    paper = f"{short_title(claim.paper)} ({claim.paper.year})"
    verdict = stated(claim)[0].upper() + stated(claim)[1:]
    space = "\n" * free
    return f"{_wrapped(paper)}\n\n{_wrapped(claim.trend.claim)}\n{space}{_wrapped(verdict)}"


def short_title(paper: Paper) -> str:
    """A title without its second part."""
    return paper.title.partition(":")[0]


def _wrapped(words: str) -> str:
    return textwrap.fill(text.clean(words), LETTERS)
