"""A paper's workspace and report on W&B, built with the objects of its library.

The module needs the extra ``dashboards``; :mod:`repro.cli.mirror` asks for it before the import.

The *workspace* has the curves of all judged runs of the paper. The *report* has the published tables with our numbers,
the tests of claims, the curves of each recipe and the commands that make the runs. A line is an experiment at a scale.
The *campaign* is a workspace with a table of all runs of the project.
"""

import contextlib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb import Api
from wandb_workspaces import expr

from repro.evidence import text
from repro.evidence.goals import goals_of, numbers_for
from repro.evidence.table import Evidence
from repro.grouping import grouped
from repro.recipe import SCALES, Recipe
from repro.record import write_atomic
from repro.report.formats.blocks import Document, Grid, Heading
from repro.report.formats.documents import markdown
from repro.report.own_runs import RunGroup, comparison
from repro.report.plots.plot import grid_of
from repro.report.views.papers import paper_document

_Saveable = TypeVar("_Saveable", ws.Workspace, wr.Report)
STEP = "trainer/global_step"  # W&B's own step counts rows, and starts again in each offline fragment
TRAINING = ("train/loss", "train/lr", "train/grad_norm", "train/param_norm")
SPEED = ("train/tokens_per_s", "train/data_wait", "train/peak_memory_gib")
# Scores that tasks also log during training, under val/; a test score's name begins with one of them.
SCORES = ("loss", "nll", "ppl", "bpc", "bpb", "bits_per_dim", "bleu", "exact_match", "accuracy", "per")
# Of the campaign's table: how far a run is, its first score that is in the paper, and what it cost.
CAMPAIGN = (
    "run:state", f"summary:{STEP}", "config:max_steps", "summary:val/loss", "summary:score/name", "summary:score/ours",
    "summary:score/published", "summary:wall_seconds", "summary:gpu_hours",
)  # fmt: skip
COLUMNS, WIDE, HIGH = 3, 8, 6  # of a report's grid, which is 24 wide
MOST_LINES = 30
MOST_LETTERS = 128  # of a report's title
DESCRIPTION = "Published values beside ours, made by `repro dashboard`; edits here are overwritten."


class Place(TypedDict):
    """Where runs and views are on W&B: a user or team, and a project of theirs."""

    entity: str
    project: str


def workspace(found: Evidence, place: Place) -> ws.Workspace:
    """The workspace of a paper, not saved."""
    (paper,) = found.papers
    recipes = list(found.comparison.recipes.values())
    sections = {
        "Training": _curves(TRAINING),
        "Validation": _curves(validated(found, recipes), published_lines(found)),
        "Speed and hardware": _curves(SPEED),
    }
    runs = ws.RunsetSettings(
        filters=[expr.Metric("Tags").isin([name]) for name in (paper.key, "judged")],
        groupby=[expr.Metric("Group"), expr.Config("recipe.title")],
    )
    return _workspace(place, f"{paper.key}: curves", sections, runs)


def campaign(place: Place) -> ws.Workspace:
    """The workspace of all runs of a project by paper and scale, not saved."""
    runs = ws.RunsetSettings(
        groupby=[expr.Config("paper"), expr.Config("scale"), expr.Metric("Group")],
        pinned_columns=list(CAMPAIGN),
    )
    return _workspace(place, "campaign", {"Validation": _curves(["val/loss"])}, runs)


def _workspace(
    place: Place, name: str, sections: Mapping[str, list[Any]], runs: ws.RunsetSettings
) -> ws.Workspace:
    return ws.Workspace(
        **place,
        name=name,
        sections=[ws.Section(name=title, panels=own, is_open=True) for title, own in sections.items()],
        settings=ws.WorkspaceSettings(x_axis=STEP, max_runs=MOST_LINES),
        runset_settings=runs,
    )


def report(found: Evidence, place: Place, address: str) -> wr.Report:
    """The report of a paper, not saved.

    Args:
        found: evidence of the one paper.
        place: of its runs.
        address: of its workspace.
    """
    (paper,) = found.papers
    opening, *passages = _passages(paper_document(found, paper))
    blocks: list[Any] = [
        wr.TableOfContents(),
        wr.P([wr.Link(text="The paper", url=paper.about.url)]),
        wr.P([wr.Link(text="All curves", url=address)]),
        wr.MarkdownBlock(opening[1]),
    ]
    for heading, words in passages:
        blocks += [wr.H2(heading), wr.MarkdownBlock(words)]
    blocks += [wr.H2("Curves by recipe"), *by_recipe(found, place), wr.H2("Commands")]
    blocks.append(wr.MarkdownBlock("\n".join(["```bash", *commands(found), "```"])))
    return _report(place, f"{paper.key}: {paper.title}", blocks, DESCRIPTION)


def comparison_report(
    groups: Sequence[RunGroup], scores: Sequence[str], metrics: Sequence[str], place: Place
) -> wr.Report:
    """A report of runs side by side, not saved: the table of :func:`comparison`, then curves.

    Args:
        groups: a line each; their runs are found by name.
        scores: of the table.
        metrics: curves, a panel each.
        place: of the runs.
    """
    header, rows = comparison(groups, scores)
    grid = Grid(tuple(header), tuple(map(tuple, rows)))
    sets = [
        wr.Runset(
            **place,
            name=text.clean(one.label),
            filters=[expr.Metric("Name").isin([record.run_id for record in one.records])],
            groupby=["config.recipe.title"],
        )
        for one in groups
    ]
    table = wr.MarkdownBlock(markdown([grid], tables=None, notice=False))
    experiments = ", ".join(dict.fromkeys(record.experiment for one in groups for record in one.records))
    blocks = [table, wr.PanelGrid(runsets=sets, panels=_curves(metrics))]
    return _report(place, f"Compared: {experiments}", blocks)


def _report(place: Place, title: str, blocks: list[Any], description: str = "") -> wr.Report:
    title = text.clean(title).replace("/", " ")[:MOST_LETTERS]  # it becomes part of an address
    return wr.Report(**place, title=title, description=description, width="fluid", blocks=blocks)


def by_recipe(found: Evidence, place: Place) -> Iterator[Any]:
    """A heading and panels for each recipe. Scales never share axes: each has panels of its own."""
    grids = grouped((grid_of(recipe.experiment), recipe) for recipe in found.comparison.recipes.values())
    for grid, points in sorted(grids.items()):
        yield wr.H3(text.clean(grid))
        metrics = (*TRAINING[:1], *validated(found, points), *TRAINING[1:], *SPEED)
        for scale in (scale for scale in SCALES if any(point.scale == scale for point in points)):
            name = "paper scale" if scale == "paper" else f"reduced scale: {scale}, not the paper's row"
            runs = wr.Runset(
                **place,
                name=name,
                query=_query(grid, [point for point in points if point.scale == scale]),
                filters=[expr.Metric("Tags").isin([tag]) for tag in (scale, "judged")],
                groupby=["run.Group", "config.recipe.title"],
            )
            yield wr.P(name)
            yield wr.PanelGrid(runsets=[runs], panels=_curves(metrics))


def validated(found: Evidence, recipes: list[Recipe]) -> list[str]:
    """The validation curves that the test scores of some recipes name, and the loss."""
    tests = [test for file in found.files.values() for test in file.tests]
    measured = {goal.measured for recipe in recipes for goal in goals_of(recipe)}
    measured |= {test.measured_of(row) for test in tests for row in test.rows}
    last = {"loss", *(name.rpartition("/")[2] for name in measured)}
    return [f"val/{s}" for s in SCORES if any(n == s or n.startswith(f"{s}_") for n in last)]


def published_lines(found: Evidence) -> dict[str, list[str]]:
    """The published numbers in the summaries of runs at the paper's scale, by the validation curve of their score."""
    (paper,) = found.papers
    recipes = [recipe for recipe in found.comparison.recipes.values() if recipe.scale == "paper"]
    names = dict.fromkeys(name for recipe in recipes for name in sorted(numbers_for(recipe, paper)))
    return grouped((n.partition("@")[0].replace("test/", "val/", 1), f"published/{n}") for n in names)


def commands(found: Evidence) -> list[str]:
    """The commands for every run of the paper: here, on a cluster; then for the tables and this dashboard.

    Each is one line of plain words, so that none can end the block that holds them.
    """
    (paper,) = found.papers
    word = shlex.quote(text.clean(paper.key))
    scales = {recipe.scale for recipe in found.comparison.recipes.values()}
    local = [f"repro reproduce {word} --scale {scale} --seeds 3" for scale in SCALES if scale in scales]
    cluster = [f"repro submit {word} --cluster NAME --seeds 3"] if "paper" in scales else []
    return [*local, *cluster, "repro tables", f"repro dashboard {word}"]


def publish(found: Evidence | None, place: Place, api: Api, addresses: Path) -> list[str]:
    """Saves a paper's workspace and report. Later calls keep their addresses, by which the library finds them.

    Args:
        found: evidence of the one paper; None saves the workspace of :func:`campaign` alone.
        place: of the runs; its project is made if it is not there.
        api: W&B's public API.
        addresses: the file with the addresses of what was saved.

    Returns:
        A line for each: ``created`` or ``updated``, workspace or report, its address.

    Raises:
        Exception: whatever W&B's library raises.
    """
    entity, project = place["entity"], place["project"]
    if project not in {existing.name for existing in api.projects(entity)}:
        api.create_project(project, entity)
    known: dict[str, Any] = json.loads(addresses.read_text(encoding="utf-8")) if addresses.is_file() else {}
    key = f"{entity}/{project}/{found.papers[0].key}" if found else f"{entity}/{project}"
    before = dict(known.get(key, {}))
    curves = workspace(found, place) if found else campaign(place)
    with contextlib.suppress(ValueError, KeyError):  # none before, or somebody deleted it
        old = ws.Workspace.from_url(before["workspace"])
        curves = _updated(old, curves, "name sections settings runset_settings")
    urls = {"workspace": str(curves.save().url)}
    known[key] = before | urls
    _write(addresses, known)
    if found:
        words = report(found, place, urls["workspace"])
        with contextlib.suppress(ValueError, TypeError, KeyError):
            head, _, name = before["report"].partition("/reports/")
            address = f"{head}/reports/it--{name.rpartition('--')[2]}"  # a title may hold "?"
            words = _updated(wr.Report.from_url(address), words, "title description width blocks")
        urls["report"] = words.save().url
        known[key] |= urls
        _write(addresses, known)
    return [
        f"{'updated' if before.get(kind) == url else 'created'} {kind:<9} {url}" for kind, url in urls.items()
    ]


def outline(report: wr.Report) -> str:
    """A report as Markdown, with a line in place of each grid of panels."""
    lines = [f"# {report.title}"]
    for block in map(vars, report.blocks):
        if "panels" in block:
            lines.append(f"[{len(block['panels'])} panels, {block['runsets'][0].name}]")
        elif block.get("text") and isinstance(block["text"], str):
            lines.append(block["text"])
    return "\n\n".join(lines) + "\n"


def _updated(existing: _Saveable, made: _Saveable, names: str) -> _Saveable:
    for name in names.split():
        setattr(existing, name, getattr(made, name))
    return existing


def _write(addresses: Path, known: Mapping[str, Any]) -> None:
    write_atomic(addresses, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())


def _passages(document: Document) -> list[tuple[str, str]]:
    """Splits a document into headings and the Markdown below each; the part before the first has no heading."""
    cut: list[tuple[str, Document]] = [("", [])]
    for block in document:
        if not isinstance(block, Heading):
            cut[-1][1].append(block)
        elif block.level > 1:  # the title is the report's own
            cut.append((text.clean(block.text), []))
    return [(heading, markdown(blocks, tables=None, notice=False)) for heading, blocks in cut]


def _curves(metrics: Iterable[str], lines: Mapping[str, list[str]] = MappingProxyType({})) -> list[Any]:
    """Curves over updates, means of the seeds with their range; published values are lines.

    Args:
        metrics: a panel for each.
        lines: published numbers by the curve beside which they stand.
    """
    return [
        wr.LinePlot(
            title=metric,
            x=STEP,
            y=[metric, *lines.get(metric, ())],
            title_x="optimiser steps",
            groupby_aggfunc="mean",
            groupby_rangefunc="minmax",
            max_runs_to_show=MOST_LINES,
            layout=wr.Layout(x=WIDE * (i % COLUMNS), y=HIGH * (i // COLUMNS), w=WIDE, h=HIGH),
        )
        for i, metric in enumerate(metrics)
    ]


def _query(grid: str, points: list[Recipe]) -> str:
    """The beginning of the names of a grid's runs, as far as all have it."""
    named = ["@" in point.experiment for point in points]
    return f"{grid}@" if all(named) else grid if any(named) else f"{grid}/"
