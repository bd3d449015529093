"""One's own runs on the site: a page for each recipe and scale, and the list of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from repro.evidence import text
from repro.evidence.published import load_paper, paper_keys
from repro.recipe import change_data
from repro.record import RunRecord
from repro.report.formats.blocks import Document, Figure, Grid, Heading, Link, Paragraph
from repro.report.formats.terminal import published_numbers
from repro.report.own_runs import comparison, curve_names, curves, group, scores_of
from repro.report.plots.plot import Plot, file_name, grid_of
from repro.report.views.runs import settings
from repro.report.views.words import PARAGRAPHS, at_scale

LIST = ("Recipe", "Scale", "Configurations", "Runs")
RUNS = ("Run", "Settings beside the recipe", "Updates", "Time", "Finished")


class OwnPage(NamedTuple):
    """The page of the runs of a recipe at a scale: the stem of its file, its line in the list, and its figure."""

    name: str
    line: tuple[Link | str, ...]
    document: Document
    plot: Plot | None


def own_pages(records: Sequence[RunRecord]) -> list[OwnPage]:
    """A page for each recipe and scale, in the order of the names; of several records of a run the last counts."""
    places: dict[tuple[str, str], dict[str, RunRecord]] = {}
    for one in sorted(records, key=lambda r: (grid_of(r.experiment), r.scale, r.run_id, r.finished)):
        places.setdefault((grid_of(one.experiment), one.scale), {})[one.run_id] = one
    return [_page(*place, [*runs.values()]) for place, runs in places.items()]


def own_list(pages: Sequence[OwnPage]) -> Document:
    """The first part of the overview: a line for each page; nothing where there is none."""
    grid = Grid(LIST, tuple(page.line for page in pages), frozenset({2, 3}))
    return [Heading(2, "Your runs"), grid, Heading(2, "The papers")] if pages else []


def _page(recipe: str, scale: str, records: Sequence[RunRecord]) -> OwnPage:
    groups, name = group(records), f"your-runs--{file_name(recipe, scale)}".removesuffix(".svg")
    plot = replace(curves(groups), name=f"{name}.svg") if curve_names(groups) else None
    line = (Link(recipe, f"{name}.html", ""), scale, str(len(groups)), str(len(records)))
    lines = tuple(map(_line, records))
    document: Document = [
        Heading(1, f"Your runs of {recipe}"),
        Paragraph(f"{at_scale(scale).capitalize()}. {PARAGRAPHS['your runs']}"),
        _scores(records),
        *([Figure(plot.name, plot.caption)] if plot else []),
        Grid(RUNS, lines, frozenset({2, 3})),
    ]
    return OwnPage(name, line, document, plot)


def _scores(records: Sequence[RunRecord]) -> Grid:
    """Tabulates differing settings and scores of runs; at the paper's scale, below the published rows."""
    groups, rows = group(records), list[tuple[str, ...]]()
    goals = {g["measured"]: None for r in records for g in r.config.get("reproduces") or ()}
    names = scores_of(groups, [goal for goal in goals if any(r.metric(goal) for r in records)])
    header, ours = comparison(groups, names)
    before = len(header) - len(names)
    for one in {r.experiment: r for r in records if not change_data(r.overrides)}.values():
        key, cells = one.experiment.partition("/")[0], one.config.get("reproduces") or ()
        paper = load_paper(key) if one.scale == "paper" and key in paper_keys() else None
        values = [published_numbers(cells, name, paper) for name in names]
        if any(value != text.NOTHING for value in values):
            rows.append(("published", *[""] * (before - 1), *values))
    kinds = ("paper",) * len(rows) + ("ours",) * len(ours)
    return Grid(tuple(header), (*rows, *map(tuple, ours)), frozenset(range(before, len(header))), kinds)


def _line(r: RunRecord) -> tuple[str, ...]:
    return r.run_id, settings(r), text.count(r.steps), text.duration(r.wall_seconds), r.finished[:10]
