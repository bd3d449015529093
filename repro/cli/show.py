"""The verb show, and how a user names a record."""

import argparse
import json
from pathlib import Path

from repro.cli.arguments import Verbs, completed
from repro.errors import UserError, nearest
from repro.events import EVENTS_FILE, status
from repro.paths import records_dirs, runs_dir
from repro.record import RECORD_FILE, RunRecord, read_record, read_records


def register(verbs: Verbs) -> None:
    """Adds this family's verb."""
    from repro.cli.jobs import complete_runs

    show = verbs.add_parser(
        "show", help="print a run's configuration, metrics and curve; of two runs, their differences"
    )
    runs = show.add_argument(
        "runs", nargs="+", metavar="RUN", help="run id or its unique beginning, run folder or record file"
    )
    completed(runs, complete_runs)
    show.add_argument("--json", action="store_true")
    show.set_defaults(handler=show_runs)


def show_runs(args: argparse.Namespace) -> None:
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
    """A record by run id or its beginning, run folder or file.

    Raises:
        UserError: no record has that name (with the nearest run ids, or the state of the run), or several run ids
            begin with it.
    """
    for path in (Path(word), Path(word) / RECORD_FILE, runs_dir() / word / RECORD_FILE):
        if path.is_file():
            return read_record(path)
    records = read_records(*records_dirs())
    matches = [r for r in records.good if word in (r.run_id, r.path.removesuffix(".json"))]
    if matches:
        return min(matches, key=lambda r: r.finished)  # of one configuration and seed the first counts
    for damage in records.damaged:
        if word == damage.path.removesuffix(".json"):
            raise UserError(str(damage))
    state = status(runs_dir() / word)
    if state:
        raise UserError(f"{word} has no record yet: {state['state']}, step {state.get('step', 0)}")
    known = {r.run_id for r in records.good}
    started = {
        path.parent.relative_to(runs_dir()).as_posix() for path in runs_dir().glob(f"*/*/*/s*/{EVENTS_FILE}")
    }
    begun = _beginning(word, known | started)
    if len(begun) == 1 and begun != [word]:
        return find_record(begun[0])
    if begun:
        raise UserError(
            f"{len(begun)} runs begin with {word!r}: {', '.join(begun[:3])}, ...; write more of one"
        )
    raise UserError(f"no run {word!r} has a record{nearest(word, known)}; `repro run` makes one")


def _beginning(word: str, runs: set[str]) -> list[str]:
    """The run ids that begin with a word, sorted; ``.../s1`` means seed 1 and not seed 11."""
    for start in (f"{word}-", word):
        if beginning := sorted(run for run in runs if run.startswith(start)):
            return beginning
    return []
