"""Verbs about results: list, parity, tables, completion."""

import argparse
import json
import math
import re
import sys
from typing import Any

from repro.cli.arguments import Verbs, add, add_scale
from repro.errors import UserError, nearest
from repro.paths import data_dir, published_files, records_dirs, results_dir
from repro.recipe import experiments, load_recipe, scales_of
from repro.record import Damage, read_records
from repro.text import clean, duration


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    lister = verbs.add_parser(
        "list", help="list published rows with recipes, scales, published and measured values, verdicts"
    )
    add(lister, "paper", nargs="?", metavar="PAPER", words=published_files)
    lister.add_argument("--mine", action="store_true", help="list your own runs, also those without a record")
    lister.add_argument("--json", action="store_true")
    lister.set_defaults(handler=list_rows)

    recipes = verbs.add_parser("recipes", help="list what can be run: recipes with time and data")
    add_scale(recipes)
    recipes.add_argument("--fits", metavar="TIME", help="only those that take at most 10m, 2h, 30s")
    recipes.set_defaults(handler=list_recipes)

    parity = verbs.add_parser(
        "parity", help="what was compared with the official codes, and how large the differences are"
    )
    add(parity, "paper", nargs="?", metavar="PAPER", words=published_files)
    parity.add_argument("--json", action="store_true")
    parity.set_defaults(handler=show_parity)

    tables = verbs.add_parser(
        "tables", help="regenerate tables, page and figures in results/ from the records"
    )
    form = tables.add_mutually_exclusive_group()
    check = "write nothing; fail where a table or a record differs"
    form.add_argument("--check", action="store_true", help=check)
    withdraw = "first withdraw a record: it no longer counts, its file stays; needs --reason"
    form.add_argument("--withdraw", metavar="RECORD", help=withdraw)
    reason = "why the record is withdrawn: a fault other than its score"
    tables.add_argument("--reason", metavar="TEXT", help=reason)
    tables.set_defaults(handler=make_tables)

    completion = verbs.add_parser(
        "completion", help='print shell completion: eval "$(repro completion bash)"'
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))
    completion.set_defaults(handler=print_completion)


def list_rows(args: argparse.Namespace) -> int:
    if args.mine:
        if args.paper or args.json:
            raise UserError("--mine lists all of your runs in a table; leave out PAPER and --json")
        return list_mine()
    from repro.evidence.table import read_evidence
    from repro.report.views.rows import list_rows as rows_of

    if args.paper and args.paper not in published_files() and (own := _recipes_of(args.paper)):
        from repro.report.formats.terminal import text_table

        print(json.dumps(own, indent=1) if args.json else text_table((row.values() for row in own), own[0]))
        return 0
    evidence = read_evidence(_known(args.paper))
    if args.json:
        print(json.dumps(rows_of(evidence), indent=1))
    else:
        from repro.report.formats.terminal import render
        from repro.report.views.rows import listing

        print(render(listing(evidence, args.paper)))
    return name_damaged(evidence.comparison.damaged)


def _recipes_of(paper: str) -> list[dict[str, str]]:
    """The recipes of a paper or study without published numbers."""
    names = [name for name in experiments() if name.partition("/")[0] == paper]
    scales = {name: scales_of(name) for name in names}
    titles = {name: str(load_recipe(name, scales[name][0]).config["title"]) for name in names}
    return [{"recipe": name, "title": titles[name], "scales": ", ".join(scales[name])} for name in names]


def list_mine() -> int:
    """Prints the runs in the run folders and the records of trials, or of the project."""
    from repro.cli.show import own_runs
    from repro.report.formats.terminal import text_table
    from repro.report.views.runs import first_number, settings

    runs = own_runs()
    rows = [(r.run_id, r.finished, str(r.steps), first_number(r), settings(r)) for r in runs]
    print(
        text_table(rows, ("run", "finished", "updates", "first number", "settings"))
        if rows
        else "no runs yet"
    )
    return 0


def list_recipes(args: argparse.Namespace) -> None:
    from repro.report.formats.terminal import text_table

    most = math.inf
    if args.fits is not None:
        units = {"s": 1 / 3600, "m": 1 / 60, "h": 1.0}
        if not (match := re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smh])", args.fits)):
            raise UserError(f"--fits: {args.fits!r} is not a time; write it like 10m, 2h or 30s")
        most = float(match[1]) * units[match[2]]
    rows = []
    for name in experiments():
        if args.scale not in scales_of(name):
            continue
        config = load_recipe(name, args.scale).config
        hours = config.get("hours")
        if most == math.inf or (hours is not None and hours <= most):
            time = duration(3600 * hours) if hours is not None else "unknown"
            rows.append((name, config["title"], time, str(config.get("hardware") or ""), _data_of(config)))
    if not rows:
        raise UserError(f"no recipe at scale {args.scale} is known to take at most {args.fits}")
    print(text_table(rows, ("recipe", "title", "time", "on", "data")))


def _data_of(config: dict[str, Any]) -> str:
    """Returns present, generated or unknown for the data of a recipe, or the command that prepares them."""
    from repro.data.registry import find_data_set

    store = (config.get("data") or {}).get("init_args", {}).get("store")
    if not isinstance(store, str):  # none, or the rules by which examples are generated
        return "generated"
    name, _, variant = store.partition("/")
    try:
        data_set = find_data_set(name)
    except UserError:
        return f"unknown: {store}"
    variant = variant or data_set.default_variant
    if (data_dir() / name / variant).is_dir():
        return "present"
    return "generated" if data_set.generated else data_set.command(variant)


def show_parity(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from repro.evidence.official import altered, read_parity
    from repro.report.formats.terminal import render
    from repro.report.parity import document

    rows = read_parity(_known(args.paper))
    print(json.dumps([asdict(one) for one in rows], indent=1) if args.json else render(document(rows)))
    problems = altered(rows)
    for line in problems:
        print(clean(line), file=sys.stderr)
    return 1 if problems else 0


def _known(paper: str | None) -> str | None:
    """A paper that has published numbers; None stays None."""
    keys = published_files()
    if paper and paper not in keys:
        close = nearest(paper, keys) or f"; there are {', '.join(keys)}"
        raise UserError(f"unknown paper {paper!r}{close}; `repro recipes` also lists studies without a paper")
    return paper


def name_damaged(damaged: list[Damage]) -> int:
    """Prints a line on stderr for each damaged record; returns the exit code."""
    for damage in damaged:
        print(clean(damage), file=sys.stderr)
    return 1 if damaged else 0


def make_tables(args: argparse.Namespace) -> int:
    from repro.evidence.ledger import unfinished, withdraw
    from repro.report.render import check_tables, write_tables

    if args.reason is not None and args.withdraw is None:
        raise UserError(f"--reason {args.reason!r} needs a record; add --withdraw RECORD")
    if args.check:
        differences = check_tables()
        for line in differences:
            print(clean(line), file=sys.stderr)
        for run in unfinished(results_dir() / "runs"):
            print(f"note: {clean(run)} was started and has no record")
        if not differences:
            print("results are up to date")
        return 1 if differences else 0
    if args.withdraw is not None:
        print(f"withdrawn: {withdraw(results_dir() / 'runs', args.withdraw, args.reason or '')}")
    changed = write_tables(site=True)
    site = [path for path in changed if path.parent.name in ("pages", "plots")]
    for path in (path for path in changed if path not in site):
        print(path)
    if site:
        print(f"{len(site)} files of {results_dir() / 'pages'} and {results_dir() / 'plots'}")
    return name_damaged(read_records(*records_dirs()).damaged)


def print_completion(args: argparse.Namespace) -> None:
    import argcomplete

    print(argcomplete.shellcode(["repro"], shell=args.shell))
