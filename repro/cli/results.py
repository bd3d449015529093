"""Verbs about results: list, tables, completion."""

import argparse
import json
import sys
from typing import Any

from repro.errors import UserError, nearest
from repro.paths import results_dir


def register(verbs: Any) -> None:
    """Adds this family's verbs."""
    lister = verbs.add_parser(
        "list", help="published rows, recipes, scales, published and measured values, verdicts"
    )
    lister.add_argument("paper", nargs="?", metavar="PAPER").completer = complete_papers
    lister.add_argument("--json", action="store_true")
    lister.set_defaults(handler=list_rows)

    tables = verbs.add_parser("tables", help="regenerate results/ from the records")
    tables.add_argument("--check", action="store_true", help="write nothing; fail where a file differs")
    tables.add_argument(
        "--from-wandb",
        metavar="ENTITY/PROJECT",
        help="first take in the records that others' runs uploaded there, marked external; 1 if any is refused",
    )
    tables.set_defaults(handler=make_tables)

    completion = verbs.add_parser("completion", help='shell completion: eval "$(repro completion bash)"')
    completion.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))
    completion.set_defaults(handler=print_completion)


def complete_papers(prefix: str, **_: Any) -> list[str]:
    """Shell completion: keys of the published papers."""
    return sorted(p.stem for p in (results_dir() / "published").glob(f"{prefix}*.yaml"))


def list_rows(args: argparse.Namespace) -> None:
    from repro.report.compare import list_rows as rows_of

    if args.paper and args.paper not in complete_papers(""):
        raise UserError(f"unknown paper {args.paper!r}{nearest(args.paper, complete_papers(''))}")
    rows = rows_of(args.paper)
    if args.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    from repro.report.terminal import rows_table

    print(rows_table(rows))


def make_tables(args: argparse.Namespace) -> int:
    from repro.report.render import check_tables, write_tables

    if args.check and args.from_wandb:
        raise UserError("--check writes nothing and --from-wandb does; give one of them")
    if args.check:
        differences = check_tables()
        for line in differences:
            print(line, file=sys.stderr)
        if not differences:
            print("results are up to date")
        return 1 if differences else 0
    good = pull_records(args.from_wandb) if args.from_wandb else True
    for path in write_tables():
        print(path)
    return 0 if good else 1


def pull_records(target: str) -> bool:
    """Takes in others' records, with a line for each; False where one was refused."""
    from repro.report.external import refused, take
    from repro.tracking.pull import pull

    states = []
    for one in pull(target):
        if one.problem is not None:
            outcome = refused(one.name, one.problem)
        else:
            outcome = take(one.name, one.record, one.outputs, target, results_dir() / "runs")
        print(outcome, flush=True)
        states.append(outcome.state)
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("taken", "there", "refused"))
    print(f"records of {target}: {counts}")
    return "refused" not in states


def print_completion(args: argparse.Namespace) -> None:
    import argcomplete

    print(argcomplete.shellcode(["repro"], shell=args.shell))
