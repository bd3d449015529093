"""Saves a specification to W&B with the public classes of its library: created once, then updated.

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
        addresses: the file with the addresses of what was saved.

    Raises:
        Exception: whatever W&B's library raises.
    """
    entity, project = spec["entity"], spec["project"]
    if project not in {existing.name for existing in api.projects(entity)}:
        api.create_project(project, entity)
    saved = _read(addresses)
    key = f"{entity}/{project}/{spec['paper']}"
    before = dict(saved.get(key, {}))
    workspace = _workspace(spec, before.get("workspace"))
    saved[key] = {**before, "workspace": workspace.url}
    _write(addresses, saved)
    report = _report(spec, before.get("report"), workspace.url)
    saved[key] = {"workspace": workspace.url, "report": report.url}
    _write(addresses, saved)
    return [Saved(kind, url, before.get(kind) != url) for kind, url in saved[key].items()]


def _read(addresses: Path) -> dict[str, dict[str, str]]:
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(addresses.read_text(encoding="utf-8"))
        return dict(content) if isinstance(content, dict) else {}
    return {}


def _write(addresses: Path, saved: Mapping[str, Any]) -> None:
    write_atomic(addresses, (json.dumps(saved, indent=1, sort_keys=True) + "\n").encode())


def _workspace(spec: Spec, url: str | None) -> "Workspace":
    """The workspace, saved: every curve of the paper's runs."""
    import wandb_workspaces.workspaces as ws
    from wandb_workspaces import expr

    content = spec["workspace"]
    saved = ws.Workspace(entity=spec["entity"], project=spec["project"], name=content["name"])
    if url is not None:
        with contextlib.suppress(ValueError):  # somebody deleted it
            saved = ws.Workspace.from_url(url)
    by: Any = expr.Config("recipe.title") if content["by"] == "title" else expr.Metric("Group")
    saved.name = content["name"]
    saved.sections = [
        ws.Section(name=section["name"], panels=_panels(section["charts"], spec["step"]), is_open=True)
        for section in content["sections"]
    ]
    saved.settings = ws.WorkspaceSettings(x_axis=spec["step"], max_runs=MOST_LINES)
    saved.runset_settings = ws.RunsetSettings(
        filters=[expr.Metric("Tags").isin([content["tag"]])], groupby=[by]
    )
    return saved.save()


def _report(spec: Spec, url: str | None, workspace: str) -> "wr.Report":
    """The report, saved: tables, tests, curves by recipe, commands."""
    import wandb_workspaces.reports.v2 as wr

    content = spec["report"]
    report = wr.Report(
        entity=spec["entity"],
        project=spec["project"],
        title=content["title"],
        description=content["description"],
    )
    if url is not None:
        with contextlib.suppress(ValueError, TypeError):  # somebody deleted it
            head, _, name = url.partition("/reports/")
            report = wr.Report.from_url(
                f"{head}/reports/it--{name.rpartition('--')[2]}"
            )  # a title may hold "?"
    report.title, report.description, report.width = content["title"], content["description"], "fluid"
    report.blocks = [_block(block, spec, workspace) for block in content["blocks"]]
    return report.save()


def _block(block: Spec, spec: Spec, workspace: str) -> Any:
    """The library's block for one of ours."""
    import wandb_workspaces.reports.v2 as wr

    if block["kind"] == "panels":
        return _grid(block, spec)
    if block["kind"] == "heading":
        return (wr.H2 if block["level"] == 2 else wr.H3)(block["text"])
    if block["kind"] == "markdown":
        return wr.MarkdownBlock(block["text"])
    if block["kind"] == "contents":
        return wr.TableOfContents()
    if block["kind"] == "paragraph":
        return wr.P(block["text"])
    return wr.P([wr.Link(text=block["text"], url=block.get("url", workspace))])


def _grid(block: Spec, spec: Spec) -> "wr.PanelGrid":
    """Panels of the runs of one recipe at one scale."""
    import wandb_workspaces.reports.v2 as wr
    from wandb_workspaces import expr

    runs = block["runs"]
    run_set = wr.Runset(
        entity=spec["entity"], project=spec["project"], name=runs["name"], query=runs["named"],
        filters=[expr.Metric("Group").isin(runs["groups"])],
        groupby=["config.recipe.title" if runs["by"] == "title" else "run.Group"],
    )  # fmt: skip
    return wr.PanelGrid(runsets=[run_set], panels=_panels(block["charts"], spec["step"]))


def _panels(charts: Sequence[Spec], step: str) -> list[Any]:
    """Curves over updates, means of each run group with the range of its seeds; several metrics as bars."""
    import wandb_workspaces.reports.v2 as wr

    panels: list[Any] = []
    for i, chart in enumerate(charts):
        if chart["kind"] == "bars":
            panel: Any = wr.BarPlot(metrics=list(chart["metrics"]))
        else:
            panel = wr.LinePlot(x=step, y=list(chart["metrics"]), groupby_rangefunc="minmax")
            panel.title_x, panel.max_runs_to_show = "optimiser steps", MOST_LINES
        panel.title, panel.groupby_aggfunc = chart["title"], "mean"
        panel.layout = wr.Layout(x=WIDE * (i % COLUMNS), y=HIGH * (i // COLUMNS), w=WIDE, h=HIGH)
        panels.append(panel)
    return panels
