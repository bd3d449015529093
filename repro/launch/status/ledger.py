"""The ledger of submissions: one folder for each, below ``$REPRO_RUNS/slurm/``.

``submission.json`` is written before the first ``sbatch`` and again after each, so a job is never in the queue
without an entry here; the folder also holds the scripts, a link to the snapshot of the code and the logs.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.errors import UserError
from repro.paths import runs_dir
from repro.record import write_atomic

ENTRY = "submission.json"


@dataclass(frozen=True)
class ArrayTask:
    """One run of a job array.

    Attributes:
        index: its array index.
        experiment: ``<paper>/<recipe>[@point]``.
        scale: of the run.
        seed: of the run.
        run_id: ``<experiment>/<scale>/s<seed>-<hash8>``.
    """

    index: int
    experiment: str
    scale: str
    seed: int
    run_id: str


@dataclass(frozen=True)
class Job:
    """One job array.

    Attributes:
        name: Slurm's job name.
        script: file name of the script in the submission's folder.
        job_id: Slurm's; None until ``sbatch`` has answered.
        after: names of the submission's jobs, and tasks of earlier submissions (``12_0``), that must succeed first.
        tasks: its runs; empty for a job that only makes tables.
    """

    name: str
    script: str
    job_id: int | None
    after: tuple[str, ...]
    tasks: tuple[ArrayTask, ...]


@dataclass(frozen=True)
class Submission:
    """One call of ``repro submit``.

    Attributes:
        name: of its folder: ``<UTC time>-<random>``; sorts by time, and stands in each job's comment.
        cluster: the profile.
        command: as typed.
        commit: of the snapshot, or None.
        dirty: whether the snapshot differs from that commit.
        jobs: in the order of submission.
        gpus: of each run; None where an earlier version submitted it.
    """

    name: str
    cluster: str
    command: str
    commit: str | None
    dirty: bool | None
    jobs: tuple[Job, ...]
    gpus: int | None = None

    @property
    def folder(self) -> Path:
        return ledger_dir() / self.name


def ledger_dir() -> Path:
    """The folder of all submissions."""
    return runs_dir() / "slurm"


def write_submission(submission: Submission) -> None:
    """Writes or replaces a submission's entry."""
    text = json.dumps(dataclasses.asdict(submission), indent=1) + "\n"
    write_atomic(submission.folder / ENTRY, text.encode())


def read_submissions() -> list[Submission]:
    """Every submission, oldest first.

    Raises:
        UserError: a damaged entry; names the file.
    """
    return [_read(path) for path in sorted(ledger_dir().glob(f"*/{ENTRY}"))]


def _read(path: Path) -> Submission:
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        raw["jobs"] = tuple(map(_job, raw["jobs"]))
        return Submission(**raw)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not an entry of the ledger ({error}); move it away to continue without it"
        ) from None


def _job(raw: dict[str, Any]) -> Job:
    tasks = tuple(ArrayTask(**task) for task in raw["tasks"])
    return Job(**{**raw, "after": tuple(raw["after"]), "tasks": tasks})
