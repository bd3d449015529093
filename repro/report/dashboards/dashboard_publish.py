"""Saves a specification to W&B with the public classes of its library: made at first, updated from then on.

The library finds a workspace or report again by its address, so the addresses are kept in a file. Needs the extra
``dashboards``.
"""

import contextlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.errors import UserError
from repro.record import write_atomic
from repro.report.dashboards.dashboard_spec import Spec

if TYPE_CHECKING:
    import wandb_workspaces.reports.v2 as wr
    from wandb import Api
    from wandb_workspaces.workspaces import Workspace

MISSING = 'dashboards need wandb-workspaces; run `pip install -e ".[dashboards]"`'
COLUMNS, WIDE, HIGH = 3, 8, 6  # of a report's grid, which is 24 wide
MOST_LINES = 30


@dataclass(frozen=True)
class Saved:
    """A workspace or report on W&B; ``created`` is False where there was one before."""

    kind: str
    url: str
    created: bool


def require() -> None:
    """Refuses where the library is not installed.

    Raises:
        UserError: it is not.
    """
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError(MISSING)


def publish(spec: Spec, api: "Api", addresses: Path) -> list[Saved]:
    """Saves a workspace and a report. Saved again, they keep their addresses.

    Args:
        spec: of :func:`repro.report.dashboards.dashboard_spec.specification`, with an entity.
        api: W&B's public API.
        addresses: the file that keeps what was saved where.

    Raises:
        Exception: whatever W&B's library raises.
    """
    entity, project = spec["entity"], spec["project"]
    if project not in {one.name for one in api.projects(entity)}:
        api.create_project(project, entity)
    known = _read(addresses)
    key = f"{entity}/{project}/{spec['paper']}"
    before = dict(known.get(key, {}))
    workspace = _workspace(spec, before.get("workspace"))
    known[key] = {**before, "workspace": workspace.url}
    _write(addresses, known)
    report = _report(spec, before.get("report"), workspace.url)
    known[key] = {"workspace": workspace.url, "report": report.url}
    _write(addresses, known)
    return [Saved(kind, url, before.get(kind) != url) for kind, url in known[key].items()]


def _read(addresses: Path) -> dict[str, dict[str, str]]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(addresses.read_text(encoding="utf-8"))
        return dict(found) if isinstance(found, dict) else {}
    return {}


def _write(addresses: Path, known: Mapping[str, Any]) -> None:
    write_atomic(addresses, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())


def _workspace(spec: Spec, url: str | None) -> "Workspace":
    """The workspace, saved: every curve of the paper's runs."""
    import wandb_workspaces.workspaces as ws
    from wandb_workspaces import expr

    said = spec["workspace"]
    made = ws.Workspace(entity=spec["entity"], project=spec["project"], name=said["name"])
    if url is not None:
        with contextlib.suppress(ValueError):  # somebody deleted it
            made = ws.Workspace.from_url(url)
    by: Any = expr.Config("recipe.title") if said["by"] == "title" else expr.Metric("Group")
    made.name = said["name"]
    made.sections = [
        ws.Section(name=one["name"], panels=_panels(one["charts"], spec["step"]), is_open=True)
        for one in said["sections"]
    ]
    made.settings = ws.WorkspaceSettings(x_axis=spec["step"], max_runs=MOST_LINES)
    made.runset_settings = ws.RunsetSettings(filters=[expr.Metric("Tags").isin([said["tag"]])], groupby=[by])
    return made.save()


def _report(spec: Spec, url: str | None, workspace: str) -> "wr.Report":
    """The report, saved: tables, claims, curves by recipe, commands."""
    import wandb_workspaces.reports.v2 as wr

    said = spec["report"]
    made = wr.Report(
        entity=spec["entity"], project=spec["project"], title=said["title"], description=said["description"]
    )
    if url is not None:
        with contextlib.suppress(ValueError, TypeError):  # somebody deleted it
            head, _, name = url.partition("/reports/")
            made = wr.Report.from_url(
                f"{head}/reports/it--{name.rpartition('--')[2]}"
            )  # a title may hold "?"
    made.title, made.description, made.width = said["title"], said["description"], "fluid"
    made.blocks = [_block(one, spec, workspace) for one in said["blocks"]]
    return made.save()


def _block(said: Spec, spec: Spec, workspace: str) -> Any:
    """A block of the library's for one of ours."""
    import wandb_workspaces.reports.v2 as wr

    if said["kind"] == "panels":
        return _grid(said, spec)
    if said["kind"] == "heading":
        return (wr.H2 if said["level"] == 2 else wr.H3)(said["text"])
    if said["kind"] == "markdown":
        return wr.MarkdownBlock(said["text"])
    if said["kind"] == "contents":
        return wr.TableOfContents()
    if said["kind"] == "paragraph":
        return wr.P(said["text"])
    return wr.P([wr.Link(text=said["text"], url=said.get("url", workspace))])


def _grid(said: Spec, spec: Spec) -> "wr.PanelGrid":
    """Panels of the runs of one recipe at one scale."""
    import wandb_workspaces.reports.v2 as wr
    from wandb_workspaces import expr

    runs = said["runs"]
    found = wr.Runset(
        entity=spec["entity"], project=spec["project"], name=runs["name"], query=runs["named"],
        filters=[expr.Metric("Group").isin(runs["groups"])],
        groupby=["config.recipe.title" if runs["by"] == "title" else "run.Group"],
    )  # fmt: skip
    return wr.PanelGrid(runsets=[found], panels=_panels(said["charts"], spec["step"]))


def _panels(charts: Sequence[Spec], step: str) -> list[Any]:
    """Curves over updates, means of each run group with the range of its seeds; several metrics as bars."""
    import wandb_workspaces.reports.v2 as wr

    made: list[Any] = []
    for i, chart in enumerate(charts):
        if chart["kind"] == "bars":
            panel: Any = wr.BarPlot(metrics=list(chart["metrics"]))
        else:
            panel = wr.LinePlot(x=step, y=list(chart["metrics"]), groupby_rangefunc="minmax")
            panel.title_x, panel.max_runs_to_show = "optimiser steps", MOST_LINES
        panel.title, panel.groupby_aggfunc = chart["title"], "mean"
        panel.layout = wr.Layout(x=WIDE * (i % COLUMNS), y=HIGH * (i // COLUMNS), w=WIDE, h=HIGH)
        made.append(panel)
    return made
