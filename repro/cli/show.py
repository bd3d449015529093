"""The verbs show, plot and compare, and how a user names runs."""

import argparse
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from repro import events
from repro.cli.arguments import Verbs, add, add_flag, add_verb, runs_and_jobs
from repro.errors import UserError, nearest
from repro.events import EVENTS_FILE, status
from repro.files import write_atomic
from repro.paths import all_records_dirs, runs_dir, trials_dir
from repro.record import RECORD_FILE, Measurement, RunRecord, finished_record, read_record, read_records, thin

if TYPE_CHECKING:
    from repro.record import Records
    from repro.report.own_runs import RunGroup

FIGURES = (".svg", ".png", ".pdf")
_RUN = "run id or its beginning (all that begin so), experiment, run folder or record file"


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    show = add_verb(verbs, "show", show_runs)
    one = "run id or its unique beginning, run folder or record file"
    add(show, "runs", one, nargs="+", metavar="RUN", words=runs_and_jobs)
    add_flag(show, "--json")

    plot = add_verb(verbs, "plot", plot_runs)
    compare = add_verb(verbs, "compare", compare_runs)
    figure = "write a figure of the curves: .svg, .png or .pdf"
    for verb, option in ((plot, "--out"), (compare, "--plot")):
        add(verb, "runs", _RUN, nargs="+", metavar="RUN", words=runs_and_jobs)
        add(verb, "--metric", "val/loss, ...; again for more", action="append", default=[], metavar="NAME")
        add(verb, option, figure, dest="out", type=Path, metavar="FILE")
    add_flag(compare, "--csv", "print a line for each run, with all of its scores")
    report = "also make a report of them on W&B, where their curves are (WANDB_ENTITY, WANDB_PROJECT)"
    add_flag(compare, "--report", report)


def plot_runs(args: argparse.Namespace) -> None:
    """Draw the curves of runs, also of runs that are not finished."""
    from repro.report.formats.terminal import curve_line
    from repro.report.plots.rows import metrics_of

    groups = _groups(args)
    records = [record for one in groups for record in one.records]
    for record in records:
        print(f"{record.run_id}  {record.finished}")
        for name in args.metric or metrics_of([record]):
            if points := record.curves.get(name):
                print(curve_line(name, points))
    _draw(groups, args.metric, args.out)


def compare_runs(args: argparse.Namespace) -> None:
    """Compare any number of runs: settings that differ, scores over seeds, curves."""
    from repro.report.formats.terminal import text_table
    from repro.report.own_runs import as_csv, comparison, curve_names, scores_of

    groups = _groups(args)
    scores = scores_of(groups, args.metric)
    if args.csv:
        print(as_csv(groups), end="")
    else:
        header, rows = comparison(groups, scores)
        print(text_table(rows, header))
        if any("±" in cell for row in rows for cell in row):
            print("± is half of the 95 % interval over seeds")
    named = [m for m in args.metric if any(m in r.curves for one in groups for r in one.records)]
    if args.out:
        _draw(groups, named, args.out)
    if args.report:
        from repro.cli.mirror import save_comparison

        save_comparison(groups, scores, curve_names(groups, named))


def _groups(args: argparse.Namespace) -> "list[RunGroup]":
    from repro.report.own_runs import group

    if args.out and args.out.suffix not in FIGURES:
        raise UserError(f"{args.out}: a figure is one of {', '.join(FIGURES)}")
    return group(find_records(args.runs))


def _draw(groups: "list[RunGroup]", named: list[str], out: Path | None) -> None:
    """Writes the figure, where one is wanted; without names, that of the usual curves."""
    from repro.report.own_runs import curves

    plot = curves(groups, named)
    if out:
        from repro.report.plots.drawing import drawn

        write_atomic(out, drawn(plot, out.suffix))
        print(f"figure  {out}")


def show_runs(args: argparse.Namespace) -> None:
    """Print a run's configuration, metrics and curve; of two runs, their differences."""
    from repro.report.formats.terminal import diff_runs, show_run

    if len(args.runs) > 2:
        raise UserError(f"show takes one run or two, not {len(args.runs)}")
    records = [find_record(word) for word in args.runs]
    if args.json:
        print(json.dumps([json.loads(r.to_json()) for r in records], indent=1))
    elif len(records) == 1:
        print(show_run(records[0]))
    else:
        print(diff_runs(*records))


def find_record(word: str) -> RunRecord:
    """Finds a record by run id or its beginning, folder or file; for an unfinished run, makes one of its events.

    Raises:
        UserError: no run has that name (with the nearest run ids), or several begin with it.
    """
    found = find_records([word])
    if len(found) > 1:
        names = ", ".join([record.run_id for record in found[:3]] + ["..."] * (len(found) > 3))
        raise UserError(f"{len(found)} runs begin with {word!r}: {names}; give more of the id")
    return found[0]


def find_records(words: Iterable[str]) -> list[RunRecord]:
    """All runs that words name or begin, each once. Of one configuration and seed the first record counts.

    Raises:
        UserError: a word that names none, with the nearest run ids, or a damaged record.
    """

    known: Records | None = None
    found: dict[str, RunRecord] = {}
    for word in words:
        files = (path / RECORD_FILE for path in (Path(word), runs_dir() / word))
        if path := next((path for path in (Path(word), *files) if path.is_file()), None):
            some = [read_record(path)]
        elif running := unfinished(Path(word)):
            some = [running]
        else:
            known = known or read_records(*all_records_dirs())
            some = _named(word, known)
        found |= {one.run_id: one for one in some}
    return list(found.values())


def own_runs() -> list[RunRecord]:
    """The runs that have a folder here, and the records of trials (of a project all of its records), by run id.

    A folder that cannot be read is reported on stderr and left out.
    """
    kept = {r.run_id: r for r in read_records(trials_dir() / "runs").good}
    for path in runs_dir().glob(f"*/*/*/s*/{EVENTS_FILE}"):
        try:
            if one := run_in(path.parent):
                kept[one.run_id] = one
        except UserError as error:
            print(f"repro: {error}", file=sys.stderr)
    return [kept[run] for run in sorted(kept)]


def _named(word: str, records: "Records") -> list[RunRecord]:
    """The runs that a run id, its beginning, or the name of a record means."""
    exact = [record for record in records.good if record.path.removesuffix(".json") == word]
    for damage in records.damaged:
        if word == damage.path.removesuffix(".json"):
            raise UserError(str(damage))
    by_id = {r.run_id: r for r in sorted(records.good, key=lambda r: r.finished, reverse=True)}
    events_files = runs_dir().glob(f"*/*/*/s*/{EVENTS_FILE}")
    started = {path.parent.relative_to(runs_dir()).as_posix() for path in events_files}
    begun = _beginning(word, by_id.keys() | started)
    either = (by_id.get(run) or run_in(runs_dir() / run) for run in begun)
    some = exact or [one for one in either if one]
    if begun and not some and (state := status(runs_dir() / begun[0])):
        raise UserError(f"{begun[0]} has no record yet: {state['state']}, step {state.get('step', 0)}")
    if not some and word.endswith(".json"):
        raise UserError(f"no such file: {word}")
    if not some:
        raise UserError(f"no run {word!r} has a record{nearest(word, by_id)}; `repro run` makes one")
    return some


def run_in(folder: Path) -> RunRecord | None:
    """Returns the record in a run's folder; for an unfinished run, makes one of its events."""
    return finished_record(folder) or unfinished(folder)


def unfinished(folder: Path) -> RunRecord | None:
    """Makes a record of the events of an unfinished run; its scores are those of the last validation.

    Raises:
        UserError: the events are not those of a run.
    """
    log, state = events.read(folder / EVENTS_FILE), status(folder)
    facts = next((event["config"] for event in reversed(log) if "config" in event), None)
    if "run" not in state or facts is None:
        return None
    curves = {
        name: [(int(step), value if math.isfinite(value) else None) for step, value in thin(points)]
        for name, points in events.curves(log).items()
    }
    try:
        experiment, scale, _ = state["run"].rsplit("/", 2)
        last = {name: points[-1][1] for name, points in curves.items() if name.startswith("val/")}
        known = ("seed", "commit", "dirty", "data", "start_from", "versions", "hardware", "precision")
        return RunRecord(
            **{name: facts[name] for name in known}, experiment=experiment, scale=scale, run_id=state["run"],
            config=facts["recipe"], config_hash=facts["hash"], parameters=0, steps=state["step"], command="",
            tokens=int(state.get("tokens") or 0), wall_seconds=events.seconds(log), gpu_hours=0.0, peak_bytes=0,
            metrics=[Measurement(name, value, "", "val") for name, value in last.items() if value is not None],
            overrides=facts.get("overrides", []), curves=curves, checkpoint_sha256=None, outputs_sha256=None,
            finished=f"not yet: {state['state']}, step {state['step']} of {state.get('max_steps')}",
            deviations=list(facts["recipe"].get("deviations") or ()),
        )  # fmt: skip
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{folder}: its events are not those of a run ({error!r:.80}); restore or remove it"
        ) from None


def _beginning(word: str, runs: set[str]) -> list[str]:
    """The run ids that begin with a word, sorted; ``.../s1`` means seed 1 and not seed 11."""
    if word in runs:
        return [word]
    for start in (f"{word}-", f"{word}/", f"{word}@", word):
        if beginning := sorted(run for run in runs if run.startswith(start)):
            return beginning
    return []
