"""``repro clean``: removes snapshots of code that no job needs and checkpoints of recorded runs."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from repro.errors import UserError
from repro.files import writing
from repro.launch.slurm.queue import in_queue
from repro.launch.slurm.snapshot import SNAPSHOTS
from repro.launch.status.ledger import ledger_dir, read_submissions
from repro.launch.status.run_index import everything, select
from repro.paths import runs_dir
from repro.recipe import experiments, load_recipe, scales_of
from repro.record import finished_record


def superfluous(targets: Sequence[str]) -> list[Path]:
    """Finds snapshots that no submission with a job in the queue uses, and checkpoints of recorded runs.

    The last checkpoint of a run stays where a recipe continues its training (``start_with: everything``), and while a
    job is in the queue, whose recipes may be other ones. Models, events, records, scripts and logs stay.

    Args:
        targets: see :func:`repro.launch.status.run_index.select`; none means all.

    Raises:
        UserError: an unknown target, a recipe that cannot be read, or no answer from Slurm.
    """
    queue = in_queue() if read_submissions() else {}
    entries = everything(queue)
    busy = {entry.submission for entry in entries if entry.task_in(queue)}
    chosen = select(targets, entries)
    folders = {e.submission.folder / "code" for e in chosen if e.submission and e.submission not in busy}
    continued = _continued()
    used = {link.resolve() for link in ledger_dir().glob("*/code") if link not in folders}
    paths = [folder for folder in sorted(folders) if folder.is_dir()]
    paths += sorted(p for p in ledger_dir().glob(f"{SNAPSHOTS}/*") if p.resolve() not in used)
    for run in dict.fromkeys(entry.run for entry in chosen if entry.run):
        if _is_recorded(run):
            saved = sorted((runs_dir() / run / "checkpoints").glob("step-*.ckpt"))
            kept = saved[-1:] if busy or run.rpartition("/")[0] in continued else []
            others = (p for p in (runs_dir() / run / "checkpoints").glob("*") if p.is_file())
            paths += sorted(p for p in others if not any(p.name.startswith(k.name) for k in kept))
    return paths


def _is_recorded(run: str) -> bool:
    """Whether a run has its record; one that cannot be read is reported on stderr and counts for none."""
    try:
        return finished_record(runs_dir() / run) is not None
    except UserError as error:
        print(f"repro: {run} keeps its checkpoints: {error}", file=sys.stderr)
        return False


def _continued() -> set[str]:
    """Experiments and scales, ``<experiment>/<scale>``, whose training a recipe continues."""
    recipes = [load_recipe(name, scale) for name in experiments() for scale in scales_of(name)]
    return {f"{r.start_from}/{r.scale}" for r in recipes if r.start_with == "everything"}


def remove(paths: Sequence[Path]) -> None:
    """Removes files, links and folders.

    Raises:
        UserError, ReproError: one cannot be removed.
    """
    for path in paths:
        with writing(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
