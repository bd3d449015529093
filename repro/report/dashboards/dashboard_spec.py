"""The specification of a dashboard as plain JSON: the same bytes from the same records."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from repro import text
from repro.report.dashboards.dashboard import STEP, Chart, Curves, Dashboard

TITLE = 128  # characters that W&B allows
DESCRIPTION = "Published values beside ours, made by `repro dashboard`; edits here are overwritten."
Spec = dict[str, Any]


def specification(board: Dashboard, entity: str, project: str) -> Spec:
    """``{paper, entity, project, step, workspace, report}``; needs neither W&B's library nor a server.

    Args:
        board: the paper's.
        entity: whose project it is; empty where nobody said.
        project: where the runs are.
    """
    key = board.paper.key
    sections = [{"name": name, "charts": _charts(charts)} for name, charts in board.sections]
    return {
        "paper": key,
        "entity": entity,
        "project": project,
        "step": STEP,
        "workspace": {
            "name": f"{key}: curves",
            "tag": key,
            "by": _by(board.by_title),
            "sections": sections,
        },
        "report": {
            "title": text.clean(f"{key}: {board.paper.title}")[:TITLE],
            "description": DESCRIPTION,
            "blocks": list(_blocks(board)),
        },
    }


def as_json(spec: Spec) -> str:
    """The canonical text of a specification."""
    return json.dumps(spec, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _charts(charts: Sequence[Chart]) -> list[Spec]:
    """Curves over updates; several metrics are bars."""
    return [
        {
            "title": chart.title,
            "kind": "bars" if len(chart.metrics) > 1 else "lines",
            "metrics": list(chart.metrics),
        }
        for chart in charts
    ]


def _by(title: bool) -> str:
    """The name of a plot's line: the title in the run's configuration, or the run group."""
    return "title" if title else "group"


def _blocks(board: Dashboard) -> Iterable[Spec]:
    """Contents, links, the tables and the tests, each recipe's curves, the commands."""
    url = board.paper.about.url
    web = re.fullmatch(r"https://[^\s\"'<>\x00-\x1f\x7f]+", url) is not None
    yield {"kind": "contents"}
    yield {"kind": "link", "text": "The paper", "url": url} if web else _paragraph(url)
    yield {"kind": "workspace", "text": "All curves"}
    yield {"kind": "markdown", "text": board.opening}
    for passage in board.passages:
        yield {"kind": "heading", "level": 2, "text": passage.heading}
        yield {"kind": "markdown", "text": passage.markdown}
    if board.curves:
        yield {"kind": "heading", "level": 2, "text": "Curves by recipe"}
    for curves in board.curves:
        yield from _curves(curves)
    yield {"kind": "heading", "level": 2, "text": "Commands"}
    yield _commands(board.commands)


def _curves(curves: Curves) -> Iterable[Spec]:
    """A recipe's heading, title, panels and commands. Scales never share axes: each has panels of its own."""
    yield {"kind": "heading", "level": 3, "text": text.clean(curves.recipe)}
    yield _paragraph(curves.title)
    for runs in sorted(curves.run_sets, key=lambda runs: not runs.shown):
        run_set = {key: value for key, value in asdict(runs).items() if key in ("name", "named", "groups")}
        run_set |= {"name": text.clean(runs.name), "groups": list(runs.groups), "by": _by(runs.by_title)}
        yield _paragraph(run_set["name"])
        yield {"kind": "panels", "runs": run_set, "charts": _charts(curves.charts)}
    yield _commands(curves.commands)


def _paragraph(words: str) -> Spec:
    return {"kind": "paragraph", "text": text.clean(words)}


def _commands(lines: Sequence[str]) -> Spec:
    """Commands; each is one line of plain words, so that none can end the block."""
    return {"kind": "markdown", "text": "\n".join(["```bash", *lines, "```"])}
