"""Slurm's queue and accounting: the tasks in the queue, and how those that left it ended.

Only ``squeue`` and ``sacct`` are called, with our own formats and without the user's settings for them
 (``SQUEUE_FORMAT``, ``SQUEUE_STATES``, ...), and for at most :data:`PATIENCE` seconds.
"""

import os
import re
import secrets
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from repro.errors import UserError
from repro.paths import runs_dir

PATIENCE = 30.0  # seconds
# Name and comment are text of the user's: with a separator drawn for each call they cannot break a line's parts.
_FIELDS = (
    "ArrayJobID", "ArrayTaskID", "State", "Reason", "RestartCnt", "TimeLeft", "StartTime", "Name", "Comment",
)  # fmt: skip
_NOTHING = ("", "N/A", "(null)", "None")
_OWN_SETTINGS = ("SQUEUE_", "SACCT_", "SCANCEL_", "SLURM_TIME_FORMAT")


class Unanswered(UserError):
    """A command of Slurm's did not answer; of ``sbatch``, whether the job is queued stays open."""


@dataclass(frozen=True)
class Queued:
    """One task that is in the queue.

    Attributes:
        job: ``12_0``, or ``12`` for a job that is no array.
        state: ``PENDING``, ``RUNNING``, ``COMPLETING``, ... as ``squeue`` spells it.
        reason: why it waits (``Priority``, ``Dependency``, ...), or an empty string.
        restarts: how often it was requeued; None where Slurm does not report it.
        time_left: until its time limit, as ``squeue`` writes it (``1-02:03:04``).
        comment: the job's; ``repro submit`` puts the name of the submission there.
        start: when it started or is expected to, in local time without a zone; None where not known.
        name: the job's.
    """

    job: str
    state: str
    reason: str
    restarts: int | None
    time_left: str
    comment: str
    start: str | None
    name: str = ""

    @property
    def is_held(self) -> bool:
        """Whether Slurm holds the task until it is released, since its start failed (on a full disk, for example)."""
        return self.state == "PENDING" and self.reason.endswith("requeued held")


def is_shared() -> bool:
    """Whether a group works in ``$REPRO_RUNS``: setgid and writable by the group, as ``chmod 2770`` makes it."""
    try:
        mode = runs_dir().stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


def in_queue() -> dict[str, Queued]:
    """This user's tasks that are in the queue, arrays expanded, by task; of every user where the folder is shared.

    Raises:
        UserError: ``squeue`` is missing, fails, or does not answer in time.
    """
    mark = f"|{secrets.token_hex(4)}|"
    form = ",".join(f"{field}:{mark}" for field in _FIELDS)
    words = ["squeue", "--noheader", "--array", "--all", "-O", form]
    done = call_slurm(words if is_shared() else [*words, "--me"])
    if done.returncode:
        raise UserError(
            f"squeue failed: {complaint(done)}; is this a login node of the cluster, with SLURM_CONF set if it needs "
            "one? If so, its controller may be away: try again"
        )
    return {task.job: task for task in _parse_queue(done.stdout, mark)}


def _parse_queue(text: str, mark: str) -> Iterator[Queued]:
    """Parses squeue's output. A record ends after its last mark, not with the line: comments may hold newlines."""
    parts = ["" if part.strip() in _NOTHING else part.strip() for part in text.split(mark)]
    for i in range(0, len(parts) - len(_FIELDS), len(_FIELDS)):
        array, index, state, reason, restarts, left, start, name, comment = parts[i : i + len(_FIELDS)]
        array = array.rpartition("\n")[2].strip()  # headings of several clusters stand before it
        if array.isdigit():
            yield Queued(
                job=f"{array}_{index}" if index.isdigit() else array,
                state=state.upper(),
                reason=reason,
                restarts=int(restarts) if restarts.isdigit() else None,
                time_left=left,
                comment=comment,
                start=start or None,
                name=name,
            )


def release(job: str) -> bool:
    """Releases a held task; returns whether Slurm did so."""
    return call_slurm(["scontrol", "release", job]).returncode == 0


def history(jobs: Iterable[str]) -> dict[str, str]:
    """The last known states of tasks, by task, as ``sacct`` has them: ``COMPLETED``, ``CANCELLED``, ``TIMEOUT``, ...

    Args:
        jobs: ``12_0`` or ``12``. Asked for by array, since sacct keeps tasks that never started as ``12_[3-9]``.

    Returns:
        States without additions (``CANCELLED by 0`` is ``CANCELLED``); ``PENDING`` for a task without a line of its
        own in an array which sacct knows: it never started, and was cancelled if it is not in the queue. Tasks of
        which sacct knows nothing are left out; so are all where it is missing or broken.
    """
    named = [job for job in jobs if re.fullmatch(r"\d+(_\d+)?", job)]
    arrays = sorted({array_of(job) for job in named}, key=int)
    if not arrays:
        return {}
    try:
        done = call_slurm(["sacct", "-X", "-n", "-P", "-o", "JobID,State", "-j", ",".join(arrays)])
    except UserError:
        return {}
    lines = [line.strip().split("|") for line in done.stdout.splitlines()] if not done.returncode else []
    states = {line[0]: line[1].split()[0].rstrip("+").upper() for line in lines if len(line) == 2 and line[1]}
    known = {array_of(job) for job in states}
    return {job: states.get(job, "PENDING") for job in named if array_of(job) in known}


def array_of(job: str) -> str:
    """The number of a task's array: ``12_0`` → ``12``."""
    return job.partition("_")[0]


def call_slurm(
    words: Sequence[str],
    env: Mapping[str, str] | None = None,
    patience_s: float | None = None,
    text: str = "",
) -> "subprocess.CompletedProcess[str]":
    """Calls one of Slurm's commands and returns the result for any exit code.

    Args:
        words: the command and its arguments.
        env: its environment; by default this process's without the user's settings for such commands.
        patience_s: by default :data:`PATIENCE`.
        text: given to it on stdin.

    Raises:
        UserError: it cannot be started.
        Unanswered: it does not answer in time.
    """
    if env is None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_OWN_SETTINGS)}
        env = {**kept, "LC_ALL": "C.UTF-8"}
    limit = PATIENCE if patience_s is None else patience_s
    try:
        return subprocess.run(
            list(words),
            env=env,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(
            f"{words[0]} did not answer within {limit:.0f} s; Slurm is busy or away, try again"
        ) from None
    except OSError as error:
        raise UserError(
            f"{words[0]} is not on PATH or cannot be started ({error.strerror}); do this on the cluster's login node"
        ) from None


def complaint(done: "subprocess.CompletedProcess[str]") -> str:
    """The different lines of a command on stderr in one line, without its name, or its exit code."""
    lines = [re.sub(rf"^{done.args[0]}: (error: )?", "", line.strip()) for line in done.stderr.splitlines()]
    plain = [re.sub(r"[\x00-\x1f\x7f]", " ", line) for line in lines if line]
    return ", ".join(dict.fromkeys(plain)) or f"exit code {done.returncode}, no message"
