"""Verbs about results: list, parity, tables, completion."""

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

from repro.cli.arguments import Verbs, add, add_flag, add_scale, add_verb
from repro.errors import EXIT_FAILED, EXIT_OK, UserError, nearest
from repro.evidence.text import clean, duration
from repro.paths import data_dir, published_files, records_dirs, results_dir
from repro.recipe import experiments, load_recipe, scales_of
from repro.record import read_records


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    lister = add_verb(verbs, "list", list_rows)
    add(lister, "paper", nargs="?", metavar="PAPER", words=published_files)
    add_flag(lister, "--mine", "list your own runs, also those without a record")
    add_flag(lister, "--json")

    recipes = add_verb(verbs, "recipes", list_recipes)
    add_scale(recipes)
    add(recipes, "--fits", "only those that take at most 10m, 2h, 30s", metavar="TIME")

    parity = add_verb(verbs, "parity", show_parity)
    add(parity, "paper", nargs="?", metavar="PAPER", words=published_files)
    add_flag(parity, "--json")

    tables = add_verb(verbs, "tables", make_tables)
    form = tables.add_mutually_exclusive_group()
    add_flag(form, "--check", "write nothing; fail where a table or a record differs")
    withdraw = "first withdraw a record: it no longer counts, its file stays; needs --reason"
    add(form, "--withdraw", withdraw, metavar="RECORD")
    add(tables, "--reason", "why the record is withdrawn: a fault other than its score", metavar="TEXT")

    completion = add_verb(verbs, "completion", print_completion)
    completion.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))


def list_rows(args: argparse.Namespace) -> int:
    """List published rows with recipes, scales, published and measured values, verdicts."""
    if args.mine:
        if args.paper or args.json:
            raise UserError("--mine lists all of your runs in a table; leave out PAPER and --json")
        return list_mine()
    from repro.evidence.table import read_evidence
    from repro.report.views.rows import list_rows as rows_of

    if args.paper and args.paper not in published_files() and (own := _recipes_of(args.paper)):
        from repro.report.formats.terminal import text_table

        print(json.dumps(own, indent=1) if args.json else text_table((row.values() for row in own), own[0]))
        return EXIT_OK
    evidence = read_evidence(_known(args.paper))
    if args.json:
        print(json.dumps(rows_of(evidence), indent=1))
    else:
        from repro.report.formats.terminal import render
        from repro.report.views.rows import listing

        print(render(listing(evidence, args.paper)))
    return complain(evidence.comparison.damaged)


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

    rows = [(r.run_id, r.finished, str(r.steps), first_number(r), settings(r)) for r in own_runs()]
    header = ("run", "finished", "updates", "first number", "settings")
    print(text_table(rows, header) if rows else "no runs yet")
    return EXIT_OK


def list_recipes(args: argparse.Namespace) -> None:
    """List what can be run: recipes with time and data."""
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
        limit = f" is known to take at most {args.fits}" if args.fits else ""
        raise UserError(f"no recipe at scale {args.scale}{limit}")
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
    """What was compared with the official codes, and how large the differences are."""
    from dataclasses import asdict

    from repro.evidence.official import altered, read_parity
    from repro.report.formats.terminal import render
    from repro.report.parity import document

    rows = read_parity(_known(args.paper))
    print(json.dumps([asdict(one) for one in rows], indent=1) if args.json else render(document(rows)))
    return complain(altered(rows))


def _known(paper: str | None) -> str | None:
    """A paper that has published numbers; None stays None."""
    keys = published_files()
    if paper and paper not in keys:
        close = nearest(paper, keys) or f"; there are {', '.join(keys)}"
        raise UserError(f"unknown paper {paper!r}{close}; `repro recipes` also lists studies without a paper")
    return paper


def complain(problems: Sequence[object]) -> int:
    """Prints a line on stderr for each problem, a damaged record for example; returns the exit code."""
    for problem in problems:
        print(clean(problem), file=sys.stderr)
    return EXIT_FAILED if problems else EXIT_OK


def make_tables(args: argparse.Namespace) -> int:
    """Regenerate tables, page and figures in results/ from the records."""
    from repro.evidence.ledger import unfinished, withdraw
    from repro.report.render import check_tables, write_tables

    if args.reason is not None and args.withdraw is None:
        raise UserError(f"--reason {args.reason!r} needs a record; add --withdraw RECORD")
    if args.check:
        code = complain(check_tables())
        for run in unfinished(results_dir() / "runs"):
            print(f"note: {clean(run)} was started and has no record")
        if code == EXIT_OK:
            print("results are up to date")
        return code
    if args.withdraw is not None:
        print(f"withdrawn: {withdraw(results_dir() / 'runs', args.withdraw, args.reason or '')}")
    page = results_dir() / "index.html"
    changed = [path for path in write_tables(site=True) if path != page]
    site = [path for path in changed if path.parent.name in ("pages", "plots")]
    for path in (path for path in changed if path not in site):
        print(path)
    if site:
        print(f"{len(site)} files of {results_dir() / 'pages'} and {results_dir() / 'plots'}")
    print(f"page  {page}")
    return complain(read_records(*records_dirs()).damaged)


def print_completion(args: argparse.Namespace) -> None:
    """Print shell completion: eval "$(repro completion bash)"."""
    import argcomplete

    print(argcomplete.shellcode(["repro"], shell=args.shell))
