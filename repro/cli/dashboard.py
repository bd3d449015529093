"""The verb that builds W&B's dashboards from code: dashboard."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from repro.cli.arguments import Verbs, completed
from repro.errors import UserError
from repro.paths import runs_dir
from repro.record import write_atomic

if TYPE_CHECKING:
    from repro.report.dashboards.dashboard import Dashboard

ADDRESSES = "dashboards.json"  # of what was saved


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    from repro.cli.results import complete_papers

    parser = verbs.add_parser("dashboard", help="create or update a paper's W&B workspace and report")
    completed(parser.add_argument("paper", metavar="PAPER"), complete_papers)
    parser.add_argument("--entity", help="user or team on W&B (default: $WANDB_ENTITY, else that of the key)")
    parser.add_argument("--project", help="default: $WANDB_PROJECT, else repro")
    parser.add_argument("--dry-run", action="store_true", help="print the specification; contact no server")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the specification to this file")
    parser.set_defaults(handler=make_dashboard)


def make_dashboard(args: argparse.Namespace) -> None:
    from repro.mirror import PROJECT_NAME
    from repro.mirror.api import check_name
    from repro.report.dashboards.dashboard import dashboard
    from repro.report.dashboards.dashboard_publish import require
    from repro.report.dashboards.dashboard_spec import as_json, specification

    if not args.dry_run:
        require()
    board = dashboard(args.paper)
    entity = args.entity or os.environ.get("WANDB_ENTITY") or ""
    project = args.project or os.environ.get("WANDB_PROJECT") or PROJECT_NAME
    check_name(project, "project")
    if entity:
        check_name(entity, "entity")
    if args.dry_run or args.out:
        written = as_json(specification(board, entity, project))
        if args.out is None:
            sys.stdout.write(written)
        else:
            write_atomic(args.out, written.encode())
            print(args.out)
    if not args.dry_run:
        _publish(board, entity, project)


def _publish(board: "Dashboard", entity: str, project: str) -> None:
    from repro.mirror.api import connect, plainly
    from repro.report.dashboards.dashboard_publish import publish
    from repro.report.dashboards.dashboard_spec import specification

    api = connect()
    with plainly(f"dashboard of {board.paper.key}"):
        entity = entity or api.default_entity or ""
        if not entity:
            raise UserError("W&B names no entity for this key; give --entity")
        saved = publish(specification(board, entity, project), api, runs_dir() / ADDRESSES)
    for item in saved:
        print(f"{'created' if item.created else 'updated'} {item.kind:<9} {item.url}")
