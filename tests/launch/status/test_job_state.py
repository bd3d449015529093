"""State and remedy of a run, from its files, the queue and the accounting."""

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.errors import UserError
from repro.launch.status.ledger import Submission
from repro.launch.status.state import survey
from repro.launch.status.summary import summarise
from tests.launch.conftest import World
from tests.launch.fake_slurm import (
    MINE,
    FakeSlurm,
    local_time,
    only,
    queued,
    run_id,
    slurm,
    submitted,
    write_status,
)

__all__ = ["slurm", "submitted"]


QUEUE_STATES = [
    # squeue's state, restarts, started seconds ago, the run's own state and its age; what it means
    ("PENDING", 0, None, None, 0, "queued (Priority)"),
    ("PENDING", 2, None, None, 0, "requeued (Priority)"),
    ("PENDING", 0, None, "requeue", 5, "requeued (Priority)"),
    ("PENDING", None, None, "training", 400, "requeued (Priority)"),
    ("REQUEUE_HOLD", 3, None, "requeue", 5, "requeued (Priority)"),
    ("RUNNING", 0, 5, None, 0, "starting"),
    ("CONFIGURING", 0, 5, None, 0, "starting"),
    ("RUNNING", 0, 50, "starting", 5, "starting"),
    ("RUNNING", 0, 50, "training", 5, "training"),
    ("RUNNING", 0, 5000, "testing", 900, "testing"),
    ("RUNNING", 1, 50, "training", 500, "starting"),  # the attempt before wrote it
    ("RUNNING", 1, 50, "requeue", 60, "starting"),
    ("RUNNING", 1, 50, "requeue", 5, "requeued"),
    ("RUNNING", 0, 50, "failed", 5, "failed"),
    ("COMPLETING", 0, 50, "training", 5, "ending"),
    ("COMPLETING", 0, 50, None, 5, "ending"),
    ("COMPLETING", 0, 50, "requeue", 5, "ending"),  # cancelled, or about to return to the queue
    ("COMPLETING", 0, 50, "stopped", 5, "stopped"),
    ("SUSPENDED", 0, 50, "training", 5, "suspended"),
]


@pytest.mark.parametrize(("state", "restarts", "began", "own", "age", "expected"), QUEUE_STATES)
def test_in_the_queue(
    submitted: Submission, slurm: FakeSlurm, state: str, restarts: int | None, began: float | None,
    own: str | None, age: float, expected: str,
) -> None:  # fmt: skip
    start = "N/A" if began is None else local_time(began)
    reason = "Priority" if began is None else "None"
    counted = "N/A" if restarts is None else restarts
    slurm.queue(queued("12_0", state, MINE, RestartCnt=counted, StartTime=start, Reason=reason))
    if own:
        write_status(age=age, state=own)
    row = only()
    assert (row.label, row.job, row.ended) == (expected, "12_0", expected in ("failed", "stopped"))


ENDS = [
    # sacct's state, the run's own state and its age; what it means
    ("CANCELLED by 0", "training", 5, "cancelled"),
    ("CANCELLED", "requeue", 5, "cancelled"),
    ("CANCELLED by 0", None, 0, "cancelled"),
    ("TIMEOUT", "training", 5, "timeout"),
    ("DEADLINE", None, 5, "timeout"),
    ("NODE_FAIL", "training", 500, "node failed"),
    ("BOOT_FAIL", None, 5, "node failed"),
    ("OUT_OF_MEMORY", "failed", 5, "out of memory"),
    ("PREEMPTED", "requeue", 5, "stopped"),
    ("FAILED", "training", 5, "failed"),
    ("FAILED", None, 0, "failed"),
    ("FAILED", "requeue", 500, "stopped"),
    ("FAILED", "stopped", 5, "stopped"),
    ("COMPLETED", "failed", 5, "failed"),
    ("COMPLETED", "training", 5, "ending"),
    ("COMPLETED", "training", 500, "lost"),
    ("COMPLETED", None, 0, "lost"),
    ("COMPLETED", "done", 500, "done"),
    ("RUNNING", "training", 5, "ending"),  # the accounting lags behind
    ("RUNNING", "training", 500, "lost"),
    ("REQUEUED", "requeue", 5, "stopped"),
    ("PENDING", None, 0, "cancelled"),
    (None, "training", 5, "ending"),
    (None, "testing", 500, "lost"),
    (None, "requeue", 500, "stopped"),
    (None, "failed", 500, "failed"),
    (None, None, 0, "lost"),
]


@pytest.mark.parametrize(("accounts", "own", "age", "expected"), ENDS)
def test_out_of_the_queue(
    submitted: Submission, slurm: FakeSlurm, accounts: str | None, own: str | None, age: float, expected: str
) -> None:
    if accounts:
        slurm.accounts(j12_0=accounts)
    if own:
        write_status(age=age, state=own)
    assert only().state == expected


def test_a_record_means_done_and_asks_nobody(submitted: Submission, slurm: FakeSlurm) -> None:
    folder = write_status(state="testing", age=500, step=10)
    (folder / "record.json").write_text("{}")
    row = only()
    assert (row.state, row.step, row.ended, row.message) == ("done", 10, True, "")
    assert slurm.calls() == []


def hold(folder: Path) -> Callable[[], None]:
    file = open(folder / ".lock", "w")  # noqa: SIM115 - closed by the caller
    fcntl.flock(file, fcntl.LOCK_EX)
    return file.close


@pytest.mark.parametrize(
    ("own", "age", "held", "expected"),
    [
        ("training", 5, False, "training"),
        ("training", 100, False, "training"),
        ("training", 300, True, "training"),
        ("training", 300, False, "lost"),
        ("starting", 300, False, "lost"),
        ("requeue", 300, False, "stopped"),
        ("stopped", 5, False, "stopped"),
        ("failed", 5000, False, "failed"),
        (None, 0, True, "starting"),
        (None, 0, False, "lost"),
    ],
)
def test_a_run_that_was_not_submitted(
    world: World, slurm: FakeSlurm, own: str | None, age: float, held: bool, expected: str
) -> None:
    folder = write_status(job=None, age=age, state=own or "x")
    if own is None:
        (folder / "events.jsonl").unlink()
    release = hold(folder) if held else (folder / ".lock").touch
    row = only()
    release()
    assert (row.state, row.job) == (expected, None)
    assert slurm.calls() == []  # a laptop without Slurm is not bothered


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]\n",
        '{"kind": 3, "step": 1, "t": 1}\n',
        "\x00\n",
        '{"kind": "state", "step": "x", "t": 1}\n',
    ],
)
def test_broken_events_are_no_error(submitted: Submission, slurm: FakeSlurm, text: str) -> None:
    slurm.queue(queued("12_0", "RUNNING", MINE))
    (write_status() / "events.jsonl").write_text(text)
    row = only()
    assert (row.state, row.step) == ("starting", None)


@pytest.mark.parametrize(
    ("accounts", "status", "parts"),
    [
        ("FAILED", {"state": "failed", "message": "loss is NaN\nat step 3"}, ["loss is NaN at step 3"]),
        ("FAILED", None, ["Slurm says FAILED", f"`repro logs {run_id()}`"]),
        ("TIMEOUT", {"state": "training"}, ["`repro submit` resumes"]),
        ("OUT_OF_MEMORY", {"state": "training"}, ["more memory"]),
        ("FAILED", {"state": "requeue"}, ["saved itself", "not requeued"]),
        (
            "FAILED",
            {"state": "requeue", "step": 7, "resumed_from": 7},
            ["at step 7 where it began: raise `time`"],
        ),
        (None, {"state": "training", "updated": "2026-02-01T00:00:00Z"}, ["12_0 left", "Slurm says nothing"]),
        (None, None, ["before the run began", "repro logs"]),
    ],
)
def test_messages_name_cause_and_remedy(
    submitted: Submission,
    slurm: FakeSlurm,
    accounts: str | None,
    status: dict[str, Any] | None,
    parts: list[str],
) -> None:
    if accounts:
        slurm.accounts(j12_0=accounts)
    if status:
        write_status(**status)
    message = only().message
    assert [part for part in parts if part not in message] == []
    assert "\n" not in message


def test_a_job_that_can_never_start_says_so(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.queue(queued("12_0", "PENDING", MINE, Reason="DependencyNeverSatisfied"))
    assert only().message == "what it waits for has failed, so it will never start; `repro cancel 12_0`"


@pytest.mark.parametrize(
    ("ended", "log", "parts"),
    [
        (
            "FAILED",
            "0: repro: no store multi30k/bpe in the data folder\nsrun: error: x\n",
            ["FAILED", "no store multi30k"],
        ),
        (
            "FAILED",
            "repro: of an earlier attempt\n" + 50 * "Traceback\n",
            ["Slurm says FAILED", "`repro logs"],
        ),
        ("FAILED", "Traceback\n", ["Slurm says FAILED", "`repro logs"]),
        ("FAILED", f"repro: /{'x' * 400} was written with other code; go back to it\n", ["go back to it"]),
        ("COMPLETED", "not started: requeued 6 times, max_requeues is 5\n", ["max_requeues is 5"]),
    ],
)
def test_the_last_words_of_the_log_are_the_cause(
    submitted: Submission, slurm: FakeSlurm, ended: str, log: str, parts: list[str]
) -> None:
    (submitted.folder / "logs" / "12_0.log").write_text(log)
    slurm.accounts(j12_0=ended)
    assert [part for part in parts if part not in only().message] == []


def test_the_limit_of_requeues_is_named(submitted: Submission, slurm: FakeSlurm) -> None:
    write_status(state="requeue", age=500, step=7, resumed_from=3)
    log = submitted.folder / "logs" / "12_0.log"
    log.write_text("not requeued: max_requeues is 5; submit again to resume\n")
    slurm.accounts(j12_0="FAILED")
    assert only().message.startswith("it saved itself and was not requeued (not requeued: max_requeues is 5;")


@pytest.mark.parametrize("reason", ["PartitionTimeLimit", "BadConstraints", "QOSMaxWallDurationPerJobLimit"])
def test_a_task_that_will_never_start_is_named(submitted: Submission, slurm: FakeSlurm, reason: str) -> None:
    slurm.queue(queued("12_0", "PENDING", MINE, Reason=reason))
    assert f"Slurm says {reason}" in only().message
    assert summarise([only()]).expected_end is None
    slurm.queue(queued("12_0", "PENDING", MINE, Reason="Priority"))
    assert only().message == ""


def test_runs_of_a_state(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.queue(queued("12_0", "PENDING", MINE, Reason="Priority"))
    assert [row.state for row in survey(states=["queued", "failed"]).rows] == ["queued"]
    assert survey(states=["failed"]).rows == []
    with pytest.raises(UserError, match="no state 'faild'; nearest: failed"):
        survey(states=["faild"])
