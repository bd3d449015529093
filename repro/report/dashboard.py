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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb import Api
from wandb_workspaces import expr

from repro import text
from repro.evidence.goals import goals_of, numbers_for
from repro.evidence.published import Paper
from repro.evidence.table import Evidence, read_evidence
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


@dataclass(frozen=True)
class Board:
    """A paper's evidence, and the place of its runs on W&B."""

    evidence: Evidence
    entity: str
    project: str

    @classmethod
    def read(cls, key: str, entity: str, project: str) -> "Board":
        """Reads a paper's evidence.

        Raises:
            UserError: no paper of that key; or a published file, recipe or record that contradicts its schema.
        """
        return cls(read_evidence(key), entity, project)

    @property
    def paper(self) -> Paper:
        (paper,) = self.evidence.papers
        return paper

    @property
    def recipes(self) -> list[Recipe]:
        return list(self.evidence.comparison.recipes.values())

    def workspace(self) -> ws.Workspace:
        """The workspace, not saved."""
        sections = {
            "Training": _curves(TRAINING),
            "Validation": _curves(self.validated(self.recipes), self.final_scores()),
            "Speed and hardware": _curves(SPEED),
            "Measured beside published": _bars(self.final_scores()),
        }
        return ws.Workspace(
            entity=self.entity,
            project=self.project,
            name=f"{self.paper.key}: curves",
            sections=[
                ws.Section(name=name, panels=own, is_open=True) for name, own in sections.items() if own
            ],
            settings=ws.WorkspaceSettings(x_axis=STEP, max_runs=MOST_LINES),
            runset_settings=ws.RunsetSettings(
                filters=[expr.Metric("Tags").isin([name]) for name in (self.paper.key, "judged")],
                groupby=[expr.Metric("Group"), expr.Config("recipe.title")],
            ),
        )

    def report(self, workspace: str) -> wr.Report:
        """The report, not saved.

        Args:
            workspace: its address.
        """
        opening, *passages = _passages(paper_document(self.evidence, self.paper))
        blocks: list[Any] = [
            wr.TableOfContents(),
            wr.P([wr.Link(text="The paper", url=self.paper.about.url)]),
            wr.P([wr.Link(text="All curves", url=workspace)]),
            wr.MarkdownBlock(opening[1]),
        ]
        for heading, words in passages:
            blocks += [wr.H2(heading), wr.MarkdownBlock(words)]
        blocks += [wr.H2("Curves by recipe"), *self.by_recipe(), wr.H2("Commands")]
        blocks.append(wr.MarkdownBlock("\n".join(["```bash", *self.commands(), "```"])))
        return wr.Report(
            entity=self.entity,
            project=self.project,
            title=text.clean(f"{self.paper.key}: {self.paper.title}")[:MOST_LETTERS],
            description=DESCRIPTION,
            width="fluid",
            blocks=blocks,
        )

    def by_recipe(self) -> Iterator[Any]:
        """A heading for each recipe. Scales never share axes: each has panels of its own."""
        grids: dict[str, list[Recipe]] = {}
        for recipe in self.recipes:
            grids.setdefault(grid_of(recipe.experiment), []).append(recipe)
        for grid, points in sorted(grids.items()):
            yield wr.H3(text.clean(grid))
            metrics = (*TRAINING[:1], *self.validated(points), *TRAINING[1:], *SPEED)
            for scale in (scale for scale in SCALES if any(point.scale == scale for point in points)):
                name = "paper scale" if scale == "paper" else f"reduced scale: {scale}, not the paper's row"
                runs = wr.Runset(
                    entity=self.entity,
                    project=self.project,
                    name=name,
                    query=_query(grid, [point for point in points if point.scale == scale]),
                    filters=[expr.Metric("Tags").isin([tag]) for tag in (scale, "judged")],
                    groupby=["run.Group", "config.recipe.title"],
                )
                yield wr.P(name)
                yield wr.PanelGrid(runsets=[runs], panels=_curves(metrics))

    def validated(self, recipes: list[Recipe]) -> list[str]:
        """The validation curves that the test scores of some recipes name, and the loss."""
        tests = self.evidence.files[self.paper.key].tests
        measured = {goal.measured for recipe in recipes for goal in goals_of(recipe)}
        measured |= {test.measured_of(row) for test in tests for row in test.rows}
        last = {"loss", *(name.rpartition("/")[2] for name in measured)}
        return [f"val/{s}" for s in SCORES if any(n == s or n.startswith(f"{s}_") for n in last)]

    def final_scores(self) -> list[list[str]]:
        """Each final score of a run at the paper's scale, then the published numbers in the summaries of the runs."""
        names: dict[str, dict[str, None]] = {}
        for recipe in self.recipes:
            for name in sorted(numbers_for(recipe, self.paper)) if recipe.scale == "paper" else ():
                names.setdefault(name.partition("@")[0], {})[f"published/{name}"] = None
        return [[measured, *names[measured]] for measured in sorted(names)]

    def commands(self) -> list[str]:
        """The commands for every run of the paper: here, on a cluster; then for the tables and this dashboard.

        Each is one line of plain words, so that none can end the block that holds them.
        """
        word = shlex.quote(text.clean(self.paper.key))
        scales = {recipe.scale for recipe in self.recipes}
        local = [f"repro reproduce {word} --scale {scale} --seeds 3" for scale in SCALES if scale in scales]
        cluster = [f"repro submit {word} --cluster NAME --seeds 3"] if "paper" in scales else []
        return [*local, *cluster, "repro tables", f"repro dashboard {word}"]


@dataclass(frozen=True)
class Saved:
    """A workspace or report on W&B; ``created`` is False where there was one before."""

    kind: str
    url: str
    created: bool


def campaign(entity: str, project: str) -> ws.Workspace:
    """The workspace of all runs of a project by paper and scale, not saved."""
    return ws.Workspace(
        entity=entity,
        project=project,
        name="campaign",
        sections=[ws.Section(name="Validation", panels=_curves(["val/loss"]), is_open=True)],
        settings=ws.WorkspaceSettings(x_axis=STEP, max_runs=MOST_LINES),
        runset_settings=ws.RunsetSettings(
            groupby=[expr.Config("paper"), expr.Config("scale"), expr.Metric("Group")],
            pinned_columns=list(CAMPAIGN),
        ),
    )


def publish(board: Board | None, entity: str, project: str, api: Api, addresses: Path) -> list[Saved]:
    """Saves a paper's workspace and report. Later calls keep their addresses, by which the library finds them.

    Args:
        board: of the paper; None saves the workspace of :func:`campaign` alone.
        entity: user or team.
        project: of the runs; it is made if it is not there.
        api: W&B's public API.
        addresses: the file with the addresses of what was saved.

    Raises:
        Exception: whatever W&B's library raises.
    """
    if project not in {existing.name for existing in api.projects(entity)}:
        api.create_project(project, entity)
    known: dict[str, Any] = json.loads(addresses.read_text(encoding="utf-8")) if addresses.is_file() else {}
    key = f"{entity}/{project}/{board.paper.key}" if board else f"{entity}/{project}"
    before = dict(known.get(key, {}))
    workspace = board.workspace() if board else campaign(entity, project)
    with contextlib.suppress(ValueError, KeyError):  # none before, or somebody deleted it
        old = ws.Workspace.from_url(before["workspace"])
        workspace = _updated(old, workspace, "name sections settings runset_settings")
    urls = {"workspace": str(workspace.save().url)}
    known[key] = before | urls
    _write(addresses, known)
    if board:
        report = board.report(urls["workspace"])
        with contextlib.suppress(ValueError, TypeError, KeyError):
            head, _, name = before["report"].partition("/reports/")
            place = f"{head}/reports/it--{name.rpartition('--')[2]}"  # a title may hold "?"
            report = _updated(wr.Report.from_url(place), report, "title description width blocks")
        urls["report"] = report.save().url
        known[key] |= urls
        _write(addresses, known)
    return [Saved(kind, url, before.get(kind) != url) for kind, url in urls.items()]


def comparison_report(
    groups: Sequence[RunGroup], scores: Sequence[str], metrics: Sequence[str], entity: str, project: str
) -> wr.Report:
    """A report of runs side by side, not saved: the table of :func:`comparison`, then curves.

    Args:
        groups: a line each; their runs are found by name.
        scores: of the table.
        metrics: curves, a panel each.
        entity: user or team.
        project: of the runs.
    """
    header, rows = comparison(groups, scores)
    grid = Grid(tuple(header), tuple(map(tuple, rows)))
    sets = [
        wr.Runset(
            entity=entity,
            project=project,
            name=text.clean(one.label),
            filters=[expr.Metric("Name").isin([record.run_id for record in one.records])],
            groupby=["config.recipe.title"],
        )
        for one in groups
    ]
    table = wr.MarkdownBlock(markdown([grid], tables=None, notice=False))
    experiments = ", ".join(dict.fromkeys(record.experiment for one in groups for record in one.records))
    return wr.Report(
        entity=entity,
        project=project,
        title=text.clean(f"Compared: {experiments}").replace("/", " ")[:MOST_LETTERS],  # part of an address
        width="fluid",
        blocks=[table, wr.PanelGrid(runsets=sets, panels=_curves(metrics))],
    )


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


def _curves(metrics: Iterable[str], lines: Iterable[list[str]] = ()) -> list[Any]:
    """Curves over updates, means of the seeds with their range; published values are lines.

    Args:
        metrics: a panel for each.
        lines: test scores, each with its published numbers, which stand beside the validation score of its name.
    """
    published = {name.replace("test/", "val/", 1): numbers for name, *numbers in lines}
    return [
        wr.LinePlot(
            title=metric,
            x=STEP,
            y=[metric, *published.get(metric, ())],
            title_x="optimiser steps",
            groupby_aggfunc="mean",
            groupby_rangefunc="minmax",
            max_runs_to_show=MOST_LINES,
            layout=_place(i),
        )
        for i, metric in enumerate(metrics)
    ]


def _bars(groups: Iterable[list[str]]) -> list[Any]:
    """Final values side by side."""
    return [
        wr.BarPlot(title=" beside ".join(names), metrics=[*names], groupby_aggfunc="mean", layout=_place(i))
        for i, names in enumerate(groups)
    ]


def _place(i: int) -> wr.Layout:
    """The place of a panel in its grid."""
    return wr.Layout(x=WIDE * (i % COLUMNS), y=HIGH * (i // COLUMNS), w=WIDE, h=HIGH)


def _query(grid: str, points: list[Recipe]) -> str:
    """The beginning of the names of a grid's runs, as far as all have it."""
    named = ["@" in point.experiment for point in points]
    return f"{grid}@" if all(named) else grid if any(named) else f"{grid}/"
