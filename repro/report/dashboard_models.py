"""A dashboard in the models of W&B's library: the JSON that W&B keeps, the same bytes from the same records.

The library makes random ids and asks a server for a project's number; here ids come from what they name, and the
number stays out until a server is asked (``dashboard_publish``). Needs the extra ``dashboards``.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from repro.errors import ReproError, UserError
from repro.report import text
from repro.report.dashboard import STEP, Chart, Curves, Dashboard, RunSet

if TYPE_CHECKING:
    from pydantic import BaseModel
    from wandb_workspaces.reports.v2 import interface, internal

MISSING = 'dashboards need wandb-workspaces; run `pip install -e ".[dashboards]"`'
TITLE = 128  # characters that W&B allows
COLUMNS, WIDE, HIGH = 3, 8, 6  # of a report's grid, which is 24 wide
MOST_LINES = 30

Spec = dict[str, Any]


def specification(board: Dashboard, entity: str, project: str, site: str = "") -> Spec:
    """``{paper, entity, project, workspace, report}``, checked in the library's own models.

    Args:
        board: the paper's.
        entity: whose project it is; empty where nobody said.
        project: where the runs are.
        site: of W&B's pages, for links; empty where no server was asked.

    Raises:
        UserError: the library is not installed.
        ReproError: the library reads something else than it wrote.
    """
    require()
    found = {
        "paper": board.paper.key,
        "entity": entity,
        "project": project,
        "workspace": _workspace(board, entity, project),
        "report": _report(board, entity, project, site),
    }
    check(found)
    return found


def as_json(spec: Spec) -> str:
    """The canonical text of a specification."""
    return json.dumps(spec, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def check(spec: Spec) -> None:
    """Reads a specification with the library's models.

    Raises:
        ReproError: a part is refused, or read as another kind than was meant.
    """
    from pydantic import ValidationError
    from wandb_workspaces.reports.v2.internal import ReportViewspec, UnknownBlock, UnknownPanel
    from wandb_workspaces.workspaces.internal import View

    try:
        view, report = View.model_validate(spec["workspace"]), ReportViewspec.model_validate(spec["report"])
    except ValidationError as error:
        raise ReproError(f"the dashboard of {spec['paper']} does not fit W&B's models: {error}") from None
    panels = [p for s in view.spec.section.panel_bank_config.sections for p in s.panels]
    panels += [p for b in _grids(report) for p in b.metadata.panel_bank_section_config.panels]
    parts: list[Any] = [*panels, *report.spec.blocks]
    strange = any(isinstance(part, UnknownPanel | UnknownBlock) for part in parts)
    read = (_bare(_dumped(view)), _bare(_dumped(report)))
    if strange or read != (_bare(spec["workspace"]), _bare(spec["report"])):
        raise ReproError(f"W&B's library reads the dashboard of {spec['paper']} otherwise than it is written")


def run_sets(spec: Spec) -> list[Spec]:
    """The run sets of a report, which name their project."""
    grids = [block for block in spec["report"]["spec"]["blocks"] if block["type"] == "panel-grid"]
    return [one for block in grids for one in block["metadata"]["runSets"]]


def view_name(kind: str, key: str) -> str:
    """The name by which W&B knows a paper's ``workspace`` or ``report``: found again, it is updated."""
    name = _id("view", kind, key)[:11]
    return f"nw-{name}-v" if kind == "workspace" else name


def address(key: str, entity: str, project: str, site: str) -> str:
    """Where a paper's workspace is to be seen, given the address of W&B's pages."""
    name = view_name("workspace", key).removeprefix("nw-").removesuffix("-v")
    return f"{site.rstrip('/')}/{quote(entity)}/{quote(project)}?nw={name}"


def require() -> None:
    import importlib.util

    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError(MISSING)


def _id(*parts: object) -> str:
    """Twelve characters that depend on what they name and on nothing else."""
    return hashlib.sha256("\0".join(map(str, ("repro", *parts))).encode()).hexdigest()[:12]


def _dumped(model: "BaseModel") -> Spec:
    """As W&B's library sends it."""
    return dict(json.loads(model.model_dump_json(by_alias=True, exclude_none=True)))


def _bare(tree: object) -> object:
    """Without the empty lists of comments that the library puts beside each text that it reads."""
    if isinstance(tree, dict):
        return {k: _bare(v) for k, v in tree.items() if (k, v) != ("inlineComments", [])}
    return [_bare(item) for item in tree] if isinstance(tree, list) else tree


def _workspace(board: Dashboard, entity: str, project: str) -> Spec:
    import wandb_workspaces.workspaces as ws
    from wandb_workspaces import expr

    key = board.paper.key
    sections = [
        ws.Section(name=name, panels=_panels(charts), is_open=True) for name, charts in board.sections
    ]
    made = ws.Workspace(
        entity=entity,
        project=project,
        name=f"{key}: curves",
        sections=sections,
        settings=ws.WorkspaceSettings(x_axis=STEP, max_runs=MOST_LINES),
    )._to_model()
    section = made.spec.section
    for (name, charts), there in zip(board.sections, section.panel_bank_config.sections, strict=True):
        _stable(there.panels, charts, key, "workspace", name)
    for runs in section.run_sets:
        runs.id, runs.filters = _id(key, "workspace", "runs"), _among("Tags", [key])
        runs.grouping = [expr.groupby_str_to_key(_by(board.by_title))]
    made.name = view_name("workspace", key)
    return _dumped(made)


def _report(board: Dashboard, entity: str, project: str, site: str) -> Spec:
    import wandb_workspaces.reports.v2 as wr
    from wandb_workspaces.reports.v2 import internal

    key = board.paper.key
    made = wr.Report(
        entity=entity,
        project=project,
        title=text.clean(f"{key}: {board.paper.title}")[:TITLE],
        description="Published values beside ours, made by `repro dashboard`; edits here are overwritten.",
        width="fluid",
    )._to_model()
    made.name = view_name("report", key)
    made.spec.blocks = [
        internal.Paragraph(),
        *_opening(board, site and address(key, entity, project, site)),
        *(block for one in board.curves for block in _curves(one, key, entity, project)),
        wr.H2("Commands")._to_model(),
        _code(board.commands),
        internal.Paragraph(),
    ]
    return _dumped(made)


def _opening(board: Dashboard, workspace: str) -> Iterable["internal.BlockTypes"]:
    """Contents, links (to the workspace where it has an address), the tables and the claims."""
    import wandb_workspaces.reports.v2 as wr

    yield wr.TableOfContents()._to_model()
    links: list[Any] = [wr.Link(text="The paper", url=board.paper.url)] if _is_web(board.paper.url) else []
    if workspace:
        links += [" · ", wr.Link(text="All curves", url=workspace)]
    yield wr.P(links or [text.clean(board.paper.url)])._to_model()
    yield wr.MarkdownBlock(board.opening)._to_model()
    for passage in board.passages:
        yield wr.H2(passage.heading)._to_model()
        yield wr.MarkdownBlock(passage.markdown)._to_model()
    if board.curves:
        yield wr.H2("Curves by recipe")._to_model()


def _is_web(url: str) -> bool:
    return re.fullmatch(r"https://[^\s\"'<>\x00-\x1f\x7f]+", url) is not None


def _curves(one: Curves, key: str, entity: str, project: str) -> Iterable["internal.BlockTypes"]:
    """A recipe's heading, title, panels and commands."""
    import wandb_workspaces.reports.v2 as wr
    from wandb_workspaces.reports.v2 import internal

    yield wr.H3(text.clean(one.recipe))._to_model()
    yield wr.P(one.title)._to_model()
    runs = [wr.Runset(name=text.clean(r.name), groupby=[_by(r.by_title)]) for r in one.run_sets]
    grid = wr.PanelGrid(
        runsets=runs, panels=_panels(one.charts), active_runset=_active(one.run_sets)
    )._to_model()
    for said, made in zip(one.run_sets, grid.metadata.run_sets, strict=True):
        made.id = _id(key, "report", one.recipe, said.name)
        made.filters = _among("Group", said.groups)
        made.enabled = said.shown
        made.search = internal.RunsetSearch(query=said.named, is_regex=True)
        made.project = internal.Project(entity_name=entity, name=project)
    _stable(grid.metadata.panel_bank_section_config.panels, one.charts, key, "report", one.recipe)
    yield grid
    yield _code(one.commands)


def _by(title: bool) -> str:
    """What a line of a plot stands for: the title in the run's configuration, or the run group."""
    return "config.recipe.title" if title else "run.Group"


def _active(sets: Sequence[RunSet]) -> int:
    return next((i for i, one in enumerate(sets) if one.shown), 0)


def _panels(charts: Sequence[Chart]) -> list["interface.PanelTypes"]:
    """Curves over updates, means of each run group with the range of its seeds; several metrics as bars."""
    import wandb_workspaces.reports.v2 as wr

    made: list[interface.PanelTypes] = []
    for i, chart in enumerate(charts):
        if len(chart.metrics) > 1:
            panel: Any = wr.BarPlot(metrics=list(chart.metrics))
        else:
            panel = wr.LinePlot(x=STEP, y=list(chart.metrics), groupby_rangefunc="minmax")
            panel.title_x, panel.max_runs_to_show = "optimiser steps", MOST_LINES
        panel.title, panel.groupby_aggfunc = chart.title, "mean"
        panel.layout = wr.Layout(x=WIDE * (i % COLUMNS), y=HIGH * (i // COLUMNS), w=WIDE, h=HIGH)
        made.append(panel)
    return made


def _stable(panels: Sequence[Any], charts: Sequence[Chart], *where: str) -> None:
    """Gives each panel an id that stays the same."""
    for panel, chart in zip(panels, charts, strict=True):
        panel.id = _id("panel", *where, *chart.metrics)


def _among(name: str, values: Sequence[str]) -> Spec:
    """A filter for runs by name of an attribute; built as a tree, since its text form would need quoting."""
    from wandb_workspaces import expr

    tree = expr.filter_expr_to_filters_tree([expr.Metric(name).isin(list(values))])
    return dict(expr.filters_tree_to_v2(tree))


def _code(lines: Sequence[str]) -> "internal.BlockTypes":
    """Commands; each is one line of plain words, so that none can end the block."""
    import wandb_workspaces.reports.v2 as wr

    return wr.MarkdownBlock("\n".join(["```bash", *lines, "```"]))._to_model()


def _grids(report: "internal.ReportViewspec") -> list["internal.PanelGrid"]:
    from wandb_workspaces.reports.v2.internal import PanelGrid

    return [block for block in report.spec.blocks if isinstance(block, PanelGrid)]
