"""All runs of the ledger or with a folder, and the selection of runs by a word."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from repro.errors import UserError, nearest
from repro.events import moment
from repro.launch.slurm.queue import Queued, array_of
from repro.launch.status.ledger import ArrayTask, Job, Submission, read_submissions
from repro.launch.targets import named_experiments
from repro.paths import runs_dir
from repro.recipe import SCALES, experiments

_FOLDER = re.compile(r"s\d+-[0-9a-f]{8}")
_JOB = re.compile(r"\d+(_\d+)?")


@dataclass(frozen=True)
class RunEntry:
    """A run of one submission; a run without a submission; or a submission's job that is not a run.

    Attributes:
        run: ``<experiment>/<scale>/s<seed>-<hash8>``; empty for a job that only makes tables.
        submission: where it was submitted; None for a run that is known by its folder alone.
        job: its job array.
        task: its task of the array.
    """

    run: str
    submission: Submission | None = None
    job: Job | None = None
    task: ArrayTask | None = None

    @property
    def experiment(self) -> str:
        return self.run.rsplit("/", 2)[0]

    @property
    def scale(self) -> str:
        return self.run.split("/")[-2] if self.run else ""

    @property
    def seed(self) -> int:
        """The run's seed; -1 for a job that only makes tables."""
        return int(self.run.rsplit("/s", 1)[1].partition("-")[0]) if self.run else -1

    @property
    def job_id(self) -> str | None:
        """``12_0``; ``12`` for a job without tasks; None where Slurm has given no number."""
        if self.job is None or self.job.job_id is None:
            return None
        return f"{self.job.job_id}_{self.task.index}" if self.task else str(self.job.job_id)

    @property
    def submitted(self) -> datetime | None:
        """The time of its submission, from the submission's name."""
        return moment(self.submission.name.rpartition("-")[0]) if self.submission else None

    @property
    def log(self) -> Path | None:
        """The file of the task's output, to which all attempts append; None where there is no task."""
        if self.submission is None or self.job_id is None:
            return None
        return self.submission.folder / "logs" / f"{self.job_id}.log"

    @property
    def parents(self) -> set[str]:
        """The tasks (``12_0``) that must succeed before this one starts."""
        if not (self.submission and self.job and self.task):
            return set()
        own = (job for job in self.submission.jobs if job.name in self.job.after)
        return {*self.job.after, *(f"{job.job_id}_{self.task.index}" for job in own)}

    def task_in(self, queue: Mapping[str, Queued]) -> Queued | None:
        """Finds its task in the queue, also by comment or name: another cluster may use the same number."""
        task = queue.get(self.job_id or "")
        if task is None or self.submission is None or self.job is None:
            return None
        mine = self.submission.name in task.comment if task.comment else task.name == self.job.name
        return task if mine else None  # by its name where the site removes comments


def everything(queue: Mapping[str, Queued] | None = None) -> list[RunEntry]:
    """Every task of every submission, oldest submission first, then the runs that were never submitted.

    Args:
        queue: what is in the queue; from it the number of a job is learned whose ``repro submit`` was ended
            before it could note the number.

    Raises:
        UserError: an entry of the ledger is damaged.
    """
    entries: list[RunEntry] = []
    for submission in (numbered(entry, queue or {}) for entry in read_submissions()):
        for job in submission.jobs:
            runs = [RunEntry(task.run_id, submission, job, task) for task in job.tasks]
            entries += runs or [RunEntry("", submission, job)]
    submitted = {entry.run for entry in entries}
    return entries + [RunEntry(run) for run in _folders() if run not in submitted]


def numbered(submission: Submission, queue: Mapping[str, Queued]) -> Submission:
    """Adds the missing numbers of a submission's jobs that are in the queue, by their comments and names."""
    mine = (queued for queued in queue.values() if submission.name in queued.comment)
    numbers = {queued.name: int(array_of(queued.job)) for queued in mine}
    jobs = (replace(job, job_id=job.job_id or numbers.get(job.name)) for job in submission.jobs)
    return replace(submission, jobs=tuple(jobs))


def _folders() -> list[str]:
    paths = (path for scale in SCALES for path in runs_dir().glob(f"*/*/{scale}/s*"))
    return sorted("/".join(path.parts[-4:]) for path in paths if _FOLDER.fullmatch(path.name))


def newest(entries: Iterable[RunEntry]) -> list[RunEntry]:
    """Each run once, with the last submission that Slurm accepted; jobs that are not runs are left out."""
    runs: dict[str, RunEntry] = {}
    for entry in entries:
        if entry.run and (entry.submission is None or entry.job_id is not None):
            runs[entry.run] = entry
        elif entry.run and (runs_dir() / entry.run).is_dir():  # never taken by Slurm, but it ran before
            runs.setdefault(entry.run, RunEntry(entry.run))
    return list(runs.values())


def select(targets: Sequence[str], entries: Sequence[RunEntry]) -> list[RunEntry]:
    """Selects the entries that the targets name, each once, in the order of ``entries``; all without targets.

    Args:
        targets: a job (``12_0``, ``12``), a submission, a run's folder, a run id, an experiment, a paper, a
            table or row (``<paper>:table2``), or how a run id begins.
        entries: of :func:`everything`.

    Raises:
        UserError: a target that matches nothing; suggests the nearest names. A paper or an experiment that has a
            recipe but no run means no entry, and is no error.
    """
    if not targets:
        return list(entries)
    chosen = {id(entry) for target in targets for entry in _select(target, entries)}
    return [entry for entry in entries if id(entry) in chosen]


def _select(target: str, entries: Sequence[RunEntry]) -> list[RunEntry]:
    if _JOB.fullmatch(target):
        matches = [k for k in entries if k.job_id and target in (k.job_id, array_of(k.job_id))]
        if not matches:
            raise UserError(f"job {target} was not submitted from here; `repro status --all` shows what was")
        return matches
    word = run_of_path(target)
    if not word.strip():
        raise UserError("a target is empty; `repro status --all` shows every run")
    rules: list[Callable[[RunEntry], object]] = [
        lambda k: k.submission is not None and k.submission.name == word.removeprefix("slurm/"),
        lambda k: k.run == word,
        lambda k: k.run and word in (k.experiment, k.experiment.partition("@")[0]),
        lambda k: k.run and k.run.partition("/")[0] == word,
        lambda k: word and k.run.startswith(word),
    ]
    for rule in rules:
        matches = [entry for entry in entries if rule(entry)]
        if matches:
            return matches
    return _of_recipes(word, entries)


def _of_recipes(word: str, entries: Sequence[RunEntry]) -> list[RunEntry]:
    try:
        meant = set(named_experiments([word]))
    except UserError:
        close = nearest(word, sorted({*names(entries), *experiments()}))
        raise UserError(f"no run or target {word!r}{close}; `repro status --all` shows every run") from None
    return [entry for entry in entries if entry.run and entry.experiment in meant]


def run_of_path(word: str) -> str:
    """The run id for the path of a run's folder; any other word unchanged."""
    written = (Path(os.path.abspath(word)), runs_dir().absolute())
    for folder, root in (written, (Path(word).resolve(), runs_dir().resolve())):  # either may be a link
        if folder.is_relative_to(root) and folder.is_dir():
            return folder.relative_to(root).as_posix()
    return word.rstrip("/") or word


def names(entries: Iterable[RunEntry]) -> set[str]:
    """The run ids, experiments and jobs of some entries."""
    return {name for entry in entries for name in (entry.run, entry.experiment, entry.job_id) if name}
