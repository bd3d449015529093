"""The content of a paper's W&B dashboard; ``dashboard_spec`` makes its JSON.

A *workspace* has the curves of all runs of the paper, one line for each run group. A *report* has the published
tables with our numbers, the tests of claims, the curves of each recipe, and the commands that make the runs.
"""

import itertools
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from repro import text
from repro.evidence.compare import Comparison
from repro.evidence.header import Goal, Header
from repro.evidence.published import Paper
from repro.evidence.table import Evidence, evidence
from repro.recipe import SCALES
from repro.report.formats import markdown
from repro.report.formats.blocks import Document, Heading
from repro.report.plots.plot import grid_of
from repro.report.plots.rows import VARIANTS
from repro.report.views.papers import paper_document

STEP = "trainer/global_step"  # W&B's own step counts rows, and starts again in each offline fragment
TRAINING = ("train/loss", "train/lr", "train/grad_norm", "train/param_norm")
SPEED = ("train/tokens_per_s", "train/mfu", "train/data_wait", "train/peak_memory_gib")
# Scores that tasks also log during training, under val/; a test score's name begins with one of them.
SCORES = ("loss", "nll", "ppl", "bpc", "bpb", "bits_per_dim", "bleu", "exact_match", "accuracy", "per")


@dataclass(frozen=True)
class Chart:
    """One plot: a metric over updates or, with several metrics, final values side by side."""

    metrics: tuple[str, ...]

    @property
    def title(self) -> str:
        """What is drawn."""
        return " beside ".join(self.metrics)


@dataclass(frozen=True)
class RunSet:
    """Runs of one recipe at one scale.

    Attributes:
        named: a part of their names: experiments of two recipes may share a table's cell.
        groups: the W&B run groups that they are in.
        by_title: lines are recipes by title, see :class:`Dashboard`.
        shown: False where the reader must ask for them: scales never share axes unasked.
    """

    name: str
    named: str
    groups: tuple[str, ...]
    by_title: bool
    shown: bool


@dataclass(frozen=True)
class Curves:
    """The curves of one recipe, all points of its grid."""

    recipe: str
    title: str
    run_sets: tuple[RunSet, ...]
    charts: tuple[Chart, ...]
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Passage:
    """A stretch of a report: a plain heading and Markdown below it."""

    heading: str
    markdown: str


@dataclass(frozen=True)
class Dashboard:
    """All that a workspace and a report need.

    Attributes:
        sections: charts of the workspace, by the section's name.
        by_title: its lines are recipes by title, and not run groups: some of these hold runs of several recipes.
        opening: before the report's first heading, in Markdown.
        passages: tests of claims, tables, reduced-scale runs.
        commands: that make all runs and tables of the paper.
    """

    paper: Paper
    sections: tuple[tuple[str, tuple[Chart, ...]], ...]
    by_title: bool
    opening: str
    passages: tuple[Passage, ...]
    curves: tuple[Curves, ...]
    commands: tuple[str, ...]


def dashboard(key: str) -> Dashboard:
    """The dashboard of one paper, from the published file, the recipes and the records.

    Raises:
        UserError: no paper of that key; or a published file, recipe or record that contradicts its schema.
    """
    found = evidence(key)
    comparison = found.comparison
    (paper,) = comparison.papers
    opening, passages = _passages(paper_document(found, paper))
    return Dashboard(
        paper=paper,
        sections=_sections(found, paper),
        by_title=_share_groups(list(comparison.headers.values())),
        opening=opening,
        passages=tuple(passages),
        curves=tuple(_curves(found, paper)),
        commands=_commands(paper.key, {scale for _, scale in comparison.headers}),
    )


def group_of(header: Header) -> str:
    """The W&B run group of an experiment at one scale: at paper scale, the first table cell it reproduces."""
    recipe = header.recipe
    if recipe.scale == "paper" and header.goals:
        return f"{recipe.paper}:{header.goals[0].table}:{header.goals[0].row}"
    return f"{recipe.experiment}/{recipe.scale}"


def _share_groups(headers: list[Header]) -> bool:
    """Whether a mean over a run group would mix experiments: cells of one row that tell metrics apart, not runs."""
    members: dict[str, set[str]] = {}
    for header in headers:
        members.setdefault(group_of(header), set()).add(header.recipe.experiment)
    return any(len(experiments) > 1 for experiments in members.values())


def _passages(document: Document) -> tuple[str, list[Passage]]:
    """Cuts a document at its headings; the part before the first one below the title is the opening."""
    cut: list[tuple[str, Document]] = [("", [])]
    for block in document:
        if isinstance(block, Heading):
            if block.level > 1:  # the title is the report's own
                cut.append((text.clean(block.text), []))
        else:
            cut[-1][1].append(block)
    written = [(heading, markdown.render(blocks, tables=None, notice=False)) for heading, blocks in cut]
    return written[0][1], [Passage(*passage) for passage in written[1:]]


def _sections(found: Evidence, paper: Paper) -> tuple[tuple[str, tuple[Chart, ...]], ...]:
    headers = list(found.comparison.headers.values())
    validated = _validated(found, paper, headers)
    sections = [
        ("Training", _each(TRAINING)),
        ("Validation", _each(validated)),
        ("Speed and hardware", _each(SPEED)),
        ("Measured beside published", _beside(found.comparison, headers)),
    ]
    return tuple((name, charts) for name, charts in sections if charts)


def _each(metrics: Iterable[str]) -> tuple[Chart, ...]:
    return tuple(Chart((metric,)) for metric in metrics)


def _validated(found: Evidence, paper: Paper, headers: list[Header]) -> list[str]:
    """The validation curves of some recipes: those that their test scores name, and those that records hold."""
    measured = {goal.measured for h in headers for goal in h.goals}
    measured |= {test.measured_of(row) for test in found.files[paper.key].tests for row in test.rows}
    last = {name.rpartition("/")[2] for name in measured}
    named = [f"val/{s}" for s in SCORES if s == "loss" or any(n == s or n.startswith(f"{s}_") for n in last)]
    experiments = {h.recipe.experiment for h in headers}
    logged = {
        name
        for selection in found.comparison.selections.values()
        for record in selection.used
        if record.experiment in experiments
        for name in record.curves
        if name.startswith("val/") and not name.startswith(VARIANTS)
    }
    return [*named, *sorted(logged - set(named))]


def _beside(comparison: Comparison, headers: list[Header]) -> tuple[Chart, ...]:
    """For each final score of a paper-scale run: it, and the published numbers in the summaries of the runs."""
    names: dict[str, dict[str, None]] = {}
    for header in headers:
        cells: dict[str, set[str]] = {}
        for goal in header.goals:
            if goal.scale == "paper" and _has_number(comparison, header, goal):
                cells.setdefault(goal.measured, set()).add(f"{goal.table}:{goal.row}")
        for measured, places in cells.items():
            ends = [f"@{place}" for place in sorted(places)] if len(places) > 1 else [""]
            names.setdefault(measured, {}).update(dict.fromkeys(f"published/{measured}{end}" for end in ends))
    return tuple(Chart((measured, *names[measured])) for measured in sorted(names))


def _has_number(comparison: Comparison, header: Header, goal: Goal) -> bool:
    entry = comparison.entries.get((header.recipe.paper, goal.table, goal.row, goal.metric))
    return entry is not None and entry.published is not None


def _curves(found: Evidence, paper: Paper) -> Iterable[Curves]:
    """By recipe, in the order of their names; runs of other scales are included but hidden."""
    comparison = found.comparison
    recipes: dict[str, list[Header]] = {}
    for (experiment, _), header in comparison.headers.items():
        recipes.setdefault(grid_of(experiment), []).append(header)
    for recipe, headers in sorted(recipes.items()):
        scales = [scale for scale in SCALES if any(h.recipe.scale == scale for h in headers)]
        used = {s for (e, s), chosen in comparison.selections.items() if grid_of(e) == recipe and chosen.used}
        shown = next((scale for scale in scales if scale in used), scales[0])
        yield Curves(
            recipe=recipe,
            title=_title(headers),
            run_sets=tuple(_run_set(recipe, scale, headers, scale == shown) for scale in scales),
            charts=_each((*TRAINING[:1], *_validated(found, paper, headers), *TRAINING[1:], *SPEED)),
            commands=tuple(
                f"repro reproduce {_points(headers, scale)} --scale {scale} --seeds 3" for scale in scales
            ),
        )


def _title(headers: list[Header]) -> str:
    """The common beginning of the titles of a grid's points."""
    titles = {text.clean(h.recipe.config.get("title") or "") for h in headers}
    if len(titles) == 1:
        return titles.pop()
    shared = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*titles, strict=False))
    return f"{''.join(letters[0] for letters in shared).rstrip(' ,:;(')} …".strip()


def _run_set(recipe: str, scale: str, headers: list[Header], shown: bool) -> RunSet:
    own = [header for header in headers if header.recipe.scale == scale]
    name = "paper scale" if scale == "paper" else f"reduced scale: {scale}, not the paper's row"
    points = ["@" in header.recipe.experiment for header in own]
    part = f"{recipe}@" if all(points) else recipe if any(points) else f"{recipe}/{scale}/"
    groups = tuple(dict.fromkeys(map(group_of, own)))
    return RunSet(name, part, groups, _share_groups(own), shown)


def _points(headers: list[Header], scale: str) -> str:
    """The experiments of a recipe at a scale, as words of a shell."""
    return " ".join(shlex.quote(text.clean(h.recipe.experiment)) for h in headers if h.recipe.scale == scale)


def _commands(key: str, scales: set[str]) -> tuple[str, ...]:
    """The commands for every run of a paper: here, on a cluster; then for the tables and this dashboard."""
    word = shlex.quote(text.clean(key))
    local = [f"repro reproduce {word} --scale {scale} --seeds 3" for scale in SCALES if scale in scales]
    cluster = [f"repro submit {word} --cluster NAME --seeds 3"] if "paper" in scales else []
    return (*local, *cluster, "repro tables", f"repro dashboard {word}")
