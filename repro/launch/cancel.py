"""``repro cancel``: removes tasks of the ledger from the queue, and no others."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from repro.errors import ReproError, UserError
from repro.launch.slurm import queue as slurm
from repro.launch.slurm.queue import Queued
from repro.launch.status.run_index import RunEntry, everything, select
from repro.launch.status.state import CANCELLED_FILE, cancelled
from repro.record import write_atomic

AT_ONCE = 200  # tasks in one call of scancel
Candidate = tuple[RunEntry, Queued]  # a task of the ledger that is in the queue


def candidates(targets: Sequence[str], every: bool = False) -> list[Candidate]:
    """Returns the tasks in the queue that the targets name, from any submission, and those that wait for one of them.

    Of a task that was cancelled before it began, Slurm starts the tasks of other jobs that must wait for its success.

    Args:
        targets: see :func:`repro.launch.status.run_index.select`.
        every: all that is in the ledger and in the queue, jobs that only make tables included; without targets.

    Raises:
        UserError: neither targets nor ``every``, or both; an unknown target; no answer from Slurm.
    """
    if not targets and not every:
        raise UserError("nothing named to cancel; name runs, targets or jobs, or use --all")
    if targets and every:
        raise UserError(f"--all cancels everything: leave {targets[0]!r} out, or --all")
    queue = slurm.in_queue()
    entries = everything(queue)
    named = {id(entry) for entry in select(targets, entries)}
    pairs = ((entry, entry.task_in(queue)) for entry in entries)
    tasks = [(entry, task) for entry, task in pairs if task and task.state != "COMPLETING"]
    jobs = {task.job for entry, task in tasks if id(entry) in named}
    while waiting := {t.job for entry, t in tasks if t.state == "PENDING" and entry.parents & jobs} - jobs:
        jobs |= waiting
    return [(entry, task) for entry, task in tasks if task.job in jobs]


def cancel(tasks: Sequence[Candidate]) -> None:
    """Asks Slurm to end the tasks. Running ones get TERM first, save a checkpoint and exit.

    The ledger notes each task, so that its state is known where there is no accounting.

    Raises:
        ReproError: Slurm refused and tasks are still in the queue; names them and gives Slurm's message.
        UserError: no answer from Slurm.
    """
    jobs = [queued.job for _, queued in tasks]
    complaints = []
    for i in range(0, len(jobs), AT_ONCE):
        done = slurm.call_slurm(["scancel", *jobs[i : i + AT_ONCE]])
        if done.returncode:
            complaints.append(slurm.complaint(done))
    # A task that ended by itself in between makes scancel complain, and is no failure.
    queue = slurm.in_queue() if complaints else {}
    remaining = [job for job in jobs if job in queue and queue[job].state != "COMPLETING"]
    _note([task for task in tasks if task[1].job not in remaining])
    if remaining:
        raise ReproError(f"scancel: {complaints[0]}; still in the queue: {', '.join(remaining)}")


def _note(tasks: Sequence[Candidate]) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    submissions = {entry.submission.name: entry.submission for entry, _ in tasks if entry.submission}
    for submission in submissions.values():
        jobs = [queued.job for entry, queued in tasks if entry.submission == submission]
        noted = {**cancelled(submission), **dict.fromkeys(jobs, now)}
        write_atomic(submission.folder / CANCELLED_FILE, (json.dumps(noted, indent=1) + "\n").encode())
