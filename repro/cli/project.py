"""The verb init: makes a project folder."""

import argparse
import sys
from pathlib import Path

from repro.cli.arguments import Verbs
from repro.errors import UserError
from repro.files import write_atomic
from repro.paths import INSTALLED, PROJECT, SHARED, files_in

TEMPLATE = Path(__file__).with_name("project_template")
PROFILE = "slurm/clusters/my-cluster.yaml"


def register(verbs: Verbs) -> None:
    """Adds this family's verb."""
    init = verbs.add_parser(
        "init", help="make a project folder: an example recipe, a cluster profile, a README"
    )
    init.add_argument("folder", metavar="DIR", type=Path, help="it may exist; no file in it is replaced")
    init.set_defaults(handler=make_project)


def make_project(args: argparse.Namespace) -> None:
    files = {
        ".gitignore": TEMPLATE / "gitignore",
        PROFILE: SHARED / "slurm" / "clusters" / "example.yaml",
        **files_in([TEMPLATE], "**/*.*"),
    }
    for name in files:
        if (args.folder / name).exists():
            raise UserError(
                f"{args.folder / name} exists; `repro init` replaces no file, choose another folder"
            )
    for name, path in files.items():
        write_atomic(args.folder / name, path.read_bytes())
        print(args.folder / name)
    if not INSTALLED:
        print(
            f"repro runs from the checkout {PROJECT}, which stays the project in every folder; "
            f"for a project of your own install it: pip install {PROJECT}",
            file=sys.stderr,
        )
