"""``repro status``: the state of every run, from its own status file, the queue and Slurm's accounting."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from repro.errors import UserError, nearest
from repro.events import age, moment
from repro.launch.slurm import queue as slurm
from repro.launch.slurm.queue import Queued
from repro.launch.status.job_state import ENDED, FINAL, UNDER_WAY, RunFacts, explain, gather, judge
from repro.launch.status.ledger import Submission
from repro.launch.status.run_index import everything, newest, select
from repro.paths import runs_dir
from repro.record import RECORD_FILE

CANCELLED_FILE = "cancelled.json"  # beside submission.json: tasks that `repro cancel` took out of the queue
SHOWN_DAYS = 7  # runs that ended longer ago are left out of the table of all runs
_ORDER = ("training", "testing", "starting", "ending", "suspended", "requeued", "queued", "submitted", *ENDED)


@dataclass(frozen=True)
class RunState:
    """One row of the table.

    Attributes:
        run: ``<experiment>/<scale>/s<seed>-<hash8>``.
        state: one word or two: ``queued``, ``training``, ``out of memory``, ...
        reason: of a task that waits: why, in Slurm's word.
        job: ``12_0``; None for a run that was not submitted.
        step: optimizer steps done; None where not known, as all that follow.
        max_steps: of the whole run.
        loss: of the last step that was logged.
        tokens: trained on so far.
        tokens_per_s: over all ranks.
        lr: learning rate.
        seconds_left: until the end of the run at its present speed.
        restarts: how often the run was started again: by Slurm, by another submission or by hand.
        limit_left: until the job's time limit, as ``squeue`` writes it.
        start: when a waiting job is expected to start, in local time.
        resumed_from: step at which the last start went on.
        wandb_url: the run's page.
        message: one line about what went wrong.
        updated: of the last event, ISO 8601, UTC.
        silent_s: seconds since then, of a run that is under way.
        submission: name of the last submission.
        gpus: that the run is given; None for one that was not submitted.
        wall_s: seconds it has trained, over all attempts.
        gpu_hours: that it has used.
    """

    run: str
    state: str
    reason: str = ""
    job: str | None = None
    step: int | None = None
    max_steps: int | None = None
    loss: float | None = None
    tokens: int | None = None
    tokens_per_s: float | None = None
    lr: float | None = None
    seconds_left: float | None = None
    restarts: int | None = None
    limit_left: str | None = None
    start: str | None = None
    resumed_from: int | None = None
    wandb_url: str | None = None
    message: str = ""
    updated: str | None = None
    silent_s: float | None = None
    submission: str | None = None
    gpus: int | None = None
    wall_s: float | None = None
    gpu_hours: float | None = None

    @property
    def label(self) -> str:
        """The state as the table shows it: ``queued (Priority)``."""
        return f"{self.state} ({self.reason})" if self.reason else self.state

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen unless someone starts the run again."""
        return self.state in ENDED


@dataclass
class Survey:
    """The state of many runs at one moment.

    Attributes:
        rows: sorted: running, waiting, failed, done.
        hidden: how many were left out because they ended long ago.
        notes: a line for each fact that could not be determined.
    """

    rows: list[RunState]
    hidden: int = 0
    notes: list[str] = field(default_factory=list)


def survey(targets: Sequence[str] = (), old_too: bool = False, states: Sequence[str] = ()) -> Survey:
    """The state of each run that the targets name, with notes on facts that could not be determined.

    Args:
        targets: see :func:`repro.launch.status.run_index.select`; none means all runs.
        old_too: with no target, also the runs that ended more than :data:`SHOWN_DAYS` days ago.
        states: only runs in one of these; none means all.

    Raises:
        UserError: a target or a state that means nothing, or a damaged entry of the ledger.
    """
    for state in states:
        if state not in _ORDER:
            raise UserError(f"no state {state!r}{nearest(state, _ORDER)}; there are: {', '.join(_ORDER)}")
    notes: list[str] = []
    entries = everything()  # before the queue: every job with a number here is or was in the queue
    queue: dict[str, Queued] | None = {}
    unnumbered = any(entry.submission and entry.job_id is None for entry in entries)
    if unnumbered:
        queue = _ask_queue(notes)
        entries = everything(queue or {})
    meant = {entry.run for entry in select(targets, entries)}
    gathered = [gather(entry) for entry in newest(entries) if entry.run in meant]
    if not unnumbered and any((e.job or e.entry.job_id) and not e.recorded for e in gathered):
        queue = _ask_queue(notes)
    _attach(gathered, queue)
    _account(gathered)
    rows = [_row(facts, judge(facts)) for facts in gathered]
    rows.sort(key=lambda row: (_ORDER.index(row.state) if row.state in _ORDER else 0, _natural(row.run)))
    rows = [row for row in rows if row.state in states] if states else rows
    listed = rows if targets or old_too else [row for row in rows if not _is_old(row)]
    return Survey(listed, len(rows) - len(listed), notes)


def _ask_queue(notes: list[str]) -> dict[str, Queued] | None:
    try:
        return slurm.in_queue()
    except UserError as error:
        notes.append(f"{error}; the states are those that the runs wrote themselves")
        return None


def _attach(gathered: Sequence[RunFacts], queue: Mapping[str, Queued] | None) -> None:
    """Adds to each run its task in the queue, preferably the last submission's.

    Of a run by hand that has ended, a job of the same number is another one: Slurm may give numbers again.
    """
    for facts in gathered:
        if queue is None:
            facts.queue_known = False
            continue
        if submitted := facts.entry.task_in(queue):
            facts.job, facts.queued = submitted.job, submitted
        elif facts.job != facts.entry.job_id and facts.status.get("state") not in ENDED:
            facts.queued = queue.get(facts.job or "")


def _account(gathered: Sequence[RunFacts]) -> None:
    """Adds to each run whose task has left the queue how the task ended."""
    ends = slurm.history([e.job for e in gathered if e.job and not e.queued and not e.recorded])
    submissions = {e.entry.submission.name: e.entry.submission for e in gathered if e.entry.submission}
    ended = {job: time for submission in submissions.values() for job, time in cancelled(submission).items()}
    for facts in gathered:
        if facts.job and not facts.queued:
            facts.ended, facts.cancelled = ends.get(facts.job), ended.get(facts.job)
            if facts.cancelled and facts.ended not in FINAL:  # no sacct, or it lags behind
                facts.ended = "CANCELLED"


def cancelled(submission: Submission) -> dict[str, str]:
    """Returns the tasks of a submission that ``repro cancel`` cancelled, with the times."""
    try:
        raw = json.loads((submission.folder / CANCELLED_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(job): str(time) for job, time in raw.items()} if isinstance(raw, dict) else {}


def _row(facts: RunFacts, state: str) -> RunState:
    status, queued, entry = facts.status, facts.queued, facts.entry
    own = facts.own_status or (status if facts.recorded else {})
    moving = own if state in UNDER_WAY else {}
    attempt = status.get("attempt")
    counts = [n for n in (attempt and attempt - 1, queued.restarts if queued else None) if n is not None]
    waits = queued is not None and state in ("queued", "requeued")
    recorded = facts.recorded.strftime("%Y-%m-%dT%H:%M:%SZ") if facts.recorded else None
    times = (status.get("updated") or recorded, facts.cancelled)
    gpus = entry.submission.gpus if entry.submission else None
    wall_s, gpu_hours = usage(facts, gpus)
    return RunState(
        run=entry.run,
        state=state,
        reason=queued.reason if queued and waits else "",
        job=facts.job,
        step=status.get("step"),
        max_steps=status.get("max_steps"),
        loss=_number(own.get("train/loss")),
        tokens=status.get("tokens"),
        tokens_per_s=_number(moving.get("train/tokens_per_s")),
        lr=_number(own.get("train/lr")),
        seconds_left=_number(moving.get("seconds_left")),
        restarts=max(counts, default=None),
        limit_left=queued.time_left if queued and not waits else None,
        start=queued.start if queued and waits else None,
        resumed_from=own.get("resumed_from"),
        wandb_url=str(status["wandb_url"]) if status.get("wandb_url") else None,
        message=explain(facts, state),
        updated=max(str(time or "") for time in times) or None,
        silent_s=age(status) if moving else None,
        submission=entry.submission.name if entry.submission else None,
        gpus=gpus,
        wall_s=wall_s,
        gpu_hours=gpu_hours,
    )


def usage(facts: RunFacts, gpus: int | None) -> tuple[float | None, float | None]:
    """Returns the seconds of training so far, over all attempts, and the GPU hours; None where unknown."""
    if facts.recorded:
        try:
            raw = json.loads((runs_dir() / facts.entry.run / RECORD_FILE).read_text(encoding="utf-8"))
            return float(raw["wall_seconds"]), float(raw["gpu_hours"])
        except (OSError, ValueError, KeyError, TypeError):
            return None, None
    tokens, speed = _number(facts.status.get("tokens")), _number(facts.status.get("train/tokens_per_s"))
    if tokens is None or not speed:
        return None, None
    return tokens / speed, None if gpus is None else tokens / speed / 3600 * gpus


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _natural(run: str) -> list[int | str]:
    """Sorts seed 2 before seed 10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", run)]


def _is_old(row: RunState) -> bool:
    """Whether a run ended long ago; one that never wrote a status counts from its submission."""
    if not row.ended:
        return False
    updated = moment(row.updated) or moment((row.submission or "").rpartition("-")[0])
    return updated is not None and (datetime.now(UTC) - updated).days >= SHOWN_DAYS
