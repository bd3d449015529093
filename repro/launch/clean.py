"""``repro clean``: removes snapshots of code that no job needs and checkpoints of recorded runs."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.errors import UserError
from repro.files import writing
from repro.launch.slurm.queue import in_queue
from repro.launch.status.ledger import read_submissions
from repro.launch.status.run_index import everything, select
from repro.paths import runs_dir
from repro.recipe import experiments, load_recipe, scales_of
from repro.record import RECORD_FILE


@dataclass(frozen=True)
class Superfluous:
    """Files that may go.

    Attributes:
        path: a file or folder.
        files, size: how many files it has, and their bytes.
    """

    path: Path
    files: int
    size: int

    @classmethod
    def of(cls, path: Path) -> "Superfluous":
        sizes = [file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file()]
        return cls(path, len(sizes), sum(sizes))


def superfluous(targets: Sequence[str]) -> list[Superfluous]:
    """Finds snapshots of submissions without a job in the queue, and checkpoints of recorded runs.

    The last checkpoint of a run stays where a recipe continues its training (``start_with: everything``). Models,
    events, records, scripts and logs stay.

    Args:
        targets: see :func:`repro.launch.status.run_index.select`; none means all.

    Raises:
        UserError: an unknown target, or no answer from Slurm.
    """
    queue = in_queue() if read_submissions() else {}
    entries = everything(queue)
    waiting = (e for e in entries if e.submission and (task := queue.get(e.job_id or "")) and e.owns(task))
    busy = {entry.submission for entry in waiting}
    chosen = select(targets, entries)
    folders = {e.submission.folder / "code" for e in chosen if e.submission and e.submission not in busy}
    continued = _continued()
    paths = [folder for folder in sorted(folders) if folder.is_dir()]
    for run in dict.fromkeys(entry.run for entry in chosen if entry.run):
        if (runs_dir() / run / RECORD_FILE).is_file():
            saved = sorted((runs_dir() / run / "checkpoints").glob("step-*.ckpt"))
            kept = saved[-1:] if run.rpartition("/")[0] in continued else []
            others = (p for p in (runs_dir() / run / "checkpoints").glob("*") if p.is_file())
            paths += sorted(p for p in others if not any(p.name.startswith(k.name) for k in kept))
    return [Superfluous.of(path) for path in paths]


def _continued() -> set[str]:
    """Experiments and scales, ``<experiment>/<scale>``, whose training a recipe continues."""
    recipes = []
    for experiment in experiments():
        for scale in scales_of(experiment):
            try:
                recipes.append(load_recipe(experiment, scale))
            except UserError:  # a recipe that cannot be read continues nothing
                continue
    return {f"{r.start_from}/{r.scale}" for r in recipes if r.start_with == "everything"}


def remove(items: Sequence[Superfluous]) -> None:
    """Removes files and folders.

    Raises:
        UserError, ReproError: one cannot be removed.
    """
    for item in items:
        with writing(item.path):
            if item.path.is_dir():
                shutil.rmtree(item.path)
            else:
                item.path.unlink(missing_ok=True)
