"""The verb that builds W&B's dashboards from code: dashboard."""

import argparse
import importlib.util
import os
import sys

from repro.cli.arguments import Verbs, completed
from repro.errors import UserError
from repro.paths import runs_dir

ADDRESSES = "dashboards.json"  # of what was saved
MISSING = 'dashboards need wandb-workspaces; run `pip install -e ".[dashboards]"`'


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    from repro.cli.results import complete_papers

    parser = verbs.add_parser("dashboard", help="create or update a paper's W&B workspace and report")
    completed(parser.add_argument("paper", metavar="PAPER"), complete_papers)
    parser.add_argument("--entity", help="user or team on W&B (default: $WANDB_ENTITY, else that of the key)")
    parser.add_argument("--project", help="default: $WANDB_PROJECT, else repro")
    parser.add_argument("--dry-run", action="store_true", help="print the report; contact no server")
    parser.set_defaults(handler=make_dashboard)


def make_dashboard(args: argparse.Namespace) -> None:
    from repro.mirror import PROJECT_NAME
    from repro.mirror.api import check_name, connect, plainly
    from repro.report.dashboard import Board, outline, publish

    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError(MISSING)
    entity = args.entity or os.environ.get("WANDB_ENTITY") or ""
    project = args.project or os.environ.get("WANDB_PROJECT") or PROJECT_NAME
    check_name(project, "project")
    if entity:
        check_name(entity, "entity")
    board = Board.of(args.paper, entity, project)
    if args.dry_run:
        sys.stdout.write(outline(board.report("https://wandb.ai")))
        return
    api = connect()
    with plainly(f"dashboard of {args.paper}"):
        if not entity and not (entity := api.default_entity or ""):
            raise UserError("W&B names no entity for this key; give --entity")
        saved = publish(Board(board.found, board.paper, entity, project), api, runs_dir() / ADDRESSES)
    for item in saved:
        print(f"{'created' if item.created else 'updated'} {item.kind:<9} {item.url}")
