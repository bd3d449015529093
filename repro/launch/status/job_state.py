"""The facts about one run and the state that follows from them: queued, training, lost, done, ..."""

import fcntl
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro.events import is_fresh, moment, status
from repro.files import lock
from repro.launch.slurm.queue import Queued
from repro.launch.status.run_index import RunEntry
from repro.mirror import url
from repro.paths import runs_dir
from repro.record import RECORD_FILE

LOCK_FILE = ".lock"

ENDED = ("failed", "lost", "timeout", "node failed", "out of memory", "stopped", "cancelled", "done")
UNDER_WAY = ("starting", "training", "testing")
_ENDED_AS = {
    "CANCELLED": "cancelled", "REVOKED": "cancelled", "TIMEOUT": "timeout", "DEADLINE": "timeout",
    "NODE_FAIL": "node failed", "BOOT_FAIL": "node failed", "OUT_OF_MEMORY": "out of memory",
    "PREEMPTED": "stopped", "FAILED": "failed",
}  # fmt: skip
# Reasons of Slurm's that do not pass by themselves.
_NEVER = (
    "PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "BadConstraints", "NeverSatisfied", "InvalidAccount",
    "InvalidQOS", "MaxWallDurationPerJobLimit", "MaxNodePerJobLimit", "MaxCpuPerJobLimit",
)  # fmt: skip
FINAL = (*_ENDED_AS, "COMPLETED")


@dataclass
class RunFacts:
    """The known facts of a run.

    Attributes:
        entry: the run and its last submission.
        status: by its events; empty where there are none.
        recorded: when its record was written; None where there is none.
        job: the task that the run is or was part of; None for one that was not submitted.
        queue_known: whether the queue could be read.
        queued: its task in the queue.
        ended: the task's state in Slurm's accounting.
        cancelled: when ``repro cancel`` took the task out of the queue; None where it did not.
    """

    entry: RunEntry
    status: Mapping[str, Any]
    recorded: datetime | None
    job: str | None
    queue_known: bool = True
    queued: Queued | None = None
    ended: str | None = None
    cancelled: str | None = None

    @property
    def own_status(self) -> Mapping[str, Any]:
        """The status if this job wrote it, not an earlier one."""
        return self.status if self.status.get("job") == self.job else {}


def gather(entry: RunEntry) -> RunFacts:
    """Reads the facts in the files of a run.

    A run belongs to its last submission, unless it was run later otherwise: by hand, on this machine or in another job.
    """
    folder = runs_dir() / entry.run
    facts = {**status(folder), "wandb_url": url(folder)}
    try:
        recorded = datetime.fromtimestamp((folder / RECORD_FILE).stat().st_mtime, UTC)
    except OSError:
        recorded = None
    job = facts.get("job")
    submitted, updated = entry.submitted, moment(facts.get("updated"))
    later = updated is not None and (submitted is None or updated > submitted)
    return RunFacts(entry, facts, recorded, job if later else entry.job_id)


def judge(facts: RunFacts) -> str:
    """Determines the state of a run."""
    if facts.recorded:
        return "done"
    if facts.queued:
        return _in_queue(facts, facts.queued)
    if facts.job is None:
        return _local(facts)
    if facts.ended in FINAL:
        return _accounted(facts, str(facts.ended))
    state = facts.own_status.get("state")
    if not facts.queue_known:
        return "submitted" if state is None else "requeued" if state == "requeue" else str(state)
    if state is None:  # sacct may go on telling that a task is PENDING which was cancelled out of its array
        return "cancelled" if facts.ended == "PENDING" else "lost"
    return _left(facts, str(state))


def _in_queue(facts: RunFacts, queued: Queued) -> str:
    state = facts.own_status.get("state")
    if queued.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"):
        return "requeued" if queued.restarts or facts.own_status else "queued"
    if queued.state == "SUSPENDED":
        return "suspended"
    began, updated = moment(queued.start), moment(facts.status.get("updated"))
    fresh = state is not None and not (began and updated and updated < began)  # else an earlier attempt's
    if queued.state == "COMPLETING" and (not fresh or state in (*UNDER_WAY, "requeue")):
        return "ending"
    if not fresh:
        return "starting"
    return "requeued" if state == "requeue" else str(state)


def _accounted(facts: RunFacts, ended: str) -> str:
    state = facts.own_status.get("state")
    if ended in ("FAILED", "COMPLETED") and state in ("requeue", "stopped", "failed"):
        return "failed" if state == "failed" else "stopped"
    if ended == "COMPLETED":
        return "lost" if state is None else _left(facts, str(state))
    return _ENDED_AS[ended]


def _left(facts: RunFacts, state: str) -> str:
    """State of a run whose job has left the queue, perhaps a moment ago."""
    if state in UNDER_WAY:
        return "ending" if is_fresh(facts.status) else "lost"
    return "stopped" if state == "requeue" else state


def _local(facts: RunFacts) -> str:
    state = facts.status.get("state", "starting")
    if state in UNDER_WAY and not is_fresh(facts.status):
        return state if is_held(runs_dir() / facts.entry.run) else "lost"
    return "stopped" if state == "requeue" else str(state)


def is_held(folder: Path) -> bool:
    """Whether a process holds a run's folder."""
    try:
        with open(folder / LOCK_FILE) as file:
            return not lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False


def explain(facts: RunFacts, state: str) -> str:
    """Returns a line with the problem of a run and the remedy; empty without a problem."""
    message = " ".join(str(facts.own_status.get("message") or "").split())
    run, job = facts.entry.run, facts.job
    resume = f"{'`repro submit`' if job else 'the same command'} resumes from its last checkpoint"
    logs = f"`repro logs {run}` may show why"
    slurm = f"Slurm says {facts.ended or 'nothing'}"
    last_line = _last_line(facts.entry)
    if state == "failed":
        return message or (f"{slurm}; {last_line or logs}" if job else "")
    if state == "lost" and job is None:
        return f"it ended without a message; {resume}"
    if state == "lost":
        step = "without a message" if facts.own_status else "before the run began"
        return f"job {job} left the queue {step}, {slurm}; {last_line or logs}; {resume}"
    if state in ("timeout", "node failed"):
        return resume
    if state == "out of memory":
        return f"give it more memory in the cluster profile; {resume}"
    if state == "stopped" and facts.own_status.get("state") == "requeue":
        last_step = facts.own_status.get("step")
        stuck = last_step is not None and last_step == facts.own_status.get("resumed_from")
        place = f", at step {last_step} where it began: raise `time`" if stuck else ""
        why = f" ({last_line})" if last_line.startswith("not requeued") and not stuck else ""
        return f"it saved itself and was not requeued{place}{why}; {resume}"
    reason = facts.queued.reason if facts.queued else ""
    if state in ("queued", "requeued") and reason == "DependencyNeverSatisfied":
        return f"what it waits for has failed, so it will never start; `repro cancel {job}`"
    if state in ("queued", "requeued") and never_starts(reason):
        return (
            f"Slurm says {reason}: no partition gives what the cluster profile asks for; `repro cancel {job}`, change "
            "the profile and submit again"
        )
    return ""


def never_starts(reason: str) -> bool:
    """Whether a task that waits for this reason waits until someone changes the job or the cluster."""
    return reason.endswith(_NEVER)


def _last_line(entry: RunEntry) -> str:
    """The last line in a job's log in which the batch script or `repro` states why it ended; empty without one."""
    if entry.log is None or not entry.log.exists():
        return ""
    last = entry.log.read_text(encoding="utf-8", errors="replace").splitlines()[-50:]
    text = "\n".join(last)
    lines = re.findall(r"^(?:\d+: )?(repro: .*|not (?:requeued|started): .*)$", text, re.MULTILINE)
    return lines[-1].removeprefix("repro: ")[:1000] if lines else ""
