"""One state for each run, from its own files, the queue and the accounting."""

import time

import pytest

from repro.errors import UserError
from repro.launch.status.ledger import Submission
from repro.launch.status.state import survey
from tests.launch.conftest import World
from tests.launch.fake_slurm import (
    MINE,
    NAME,
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


def test_what_the_row_holds(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.queue(
        queued("12_0", "RUNNING", MINE, RestartCnt=2, StartTime=local_time(60), TimeLeft="1-02:00:00")
    )
    messages = {
        "step": 120,
        "max_steps": 1000,
        "tokens": 5000,
        "train/loss": 2.5,
        "train/lr": 0.001,
        "attempt": 2,
    }
    messages |= {"train/tokens_per_s": 800.5, "seconds_left": 90, "resumed_from": 100}
    (write_status(**messages) / "mirror.json").write_text('{"url": "https://w/x"}')
    row = only()
    assert (row.run, row.submission, row.step, row.max_steps) == (run_id(), NAME, 120, 1000)
    assert (row.loss, row.lr, row.tokens, row.tokens_per_s) == (2.5, 0.001, 5000, 800.5)
    assert (row.seconds_left, row.limit_left, row.restarts, row.resumed_from) == (90, "1-02:00:00", 2, 100)
    assert (row.wandb_url, row.message) == ("https://w/x", "")


def test_restarts_count_those_by_hand(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.queue(queued("12_0", "RUNNING", MINE, RestartCnt=1))
    write_status(attempt=5)
    assert only().restarts == 4


def test_a_run_that_writes_nothing_shows_for_how_long(submitted: Submission, slurm: FakeSlurm) -> None:
    """A hung process is still running for Slurm."""
    slurm.queue(queued("12_0", "RUNNING", MINE))
    write_status(age=131)
    row = only()
    assert row.state == "training"
    assert row.silent_s == pytest.approx(131, abs=30)
    slurm.queue()
    slurm.accounts(j12_0="FAILED")
    assert only().silent_s is None


def test_speed_of_a_run_that_stands_is_not_shown(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.accounts(j12_0="TIMEOUT")
    write_status(**{"train/tokens_per_s": 800.5, "seconds_left": 90, "train/loss": 2.5, "step": 3})
    row = only()
    assert (row.tokens_per_s, row.seconds_left, row.loss, row.step) == (None, None, 2.5, 3)


def test_numbers_that_are_none_are_left_out(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.queue(queued("12_0", "RUNNING", MINE))
    write_status(**{"train/loss": float("nan"), "train/tokens_per_s": None})
    row = only()
    assert (row.loss, row.tokens_per_s) == (None, None)


def test_the_newest_submission_wins(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.submit("20260201T000000Z-bb", 15, run_id())
    write_status(job="12_0", age=5, state="failed", updated="2026-01-15T00:00:00Z", step=7, message="old")
    slurm.queue(queued("15_0", "PENDING", "20260201T000000Z-bb", Reason="Resources"))
    row = only()
    assert (row.label, row.job, row.step, row.message) == ("queued (Resources)", "15_0", 7, "")
    assert only(("12_0",)).job == "15_0"  # an earlier job names the run


def test_a_later_run_by_hand_wins_over_a_job_that_is_gone(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.accounts(j12_0="FAILED")
    write_status(job=None, state="training")
    row = only()
    assert (row.state, row.job) == ("training", None)


def test_a_queued_job_wins_over_a_later_run_by_hand(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.queue(queued("12_0", "PENDING", MINE))
    write_status(job=None, state="stopped")
    assert (only().state, only().job) == ("queued", "12_0")


def test_a_job_submitted_by_hand_is_found_in_the_queue(world: World, slurm: FakeSlurm) -> None:
    write_status(job="77")
    slurm.queue(queued("77", "RUNNING", "whatever", StartTime=local_time(60)))
    assert (only().state, only().job) == ("training", "77")


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_a_run_by_hand_that_ended_is_not_the_next_job_of_that_number(
    world: World, slurm: FakeSlurm, state: str
) -> None:
    write_status(job="77", state=state)
    slurm.queue(queued("77", "PENDING", "another's job"))
    assert only().state == state


def test_a_foreign_job_of_that_number_is_not_ours(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.queue(queued("12_0", "RUNNING", "of another cluster"))
    slurm.accounts(j12_0="TIMEOUT")
    assert only().state == "timeout"


def test_without_squeue_the_runs_own_words_are_shown(submitted: Submission, slurm: FakeSlurm) -> None:
    (slurm.folder / "squeue").unlink()
    slurm.submit("20260102T000000Z-bb", 13, run_id(2), run_id(3))
    write_status(state="training", age=5000)
    write_status(run_id(2), "13_0", state="requeue")
    result = survey()
    assert [row.state for row in result.rows] == ["training", "requeued", "submitted"]
    (note,) = result.notes
    assert note.startswith("squeue is not on PATH")
    slurm.accounts(j12_0="NODE_FAIL")
    assert [row.state for row in survey([run_id()], old_too=True).rows] == ["node failed"]


def test_a_cancelled_task_is_known_without_accounting(submitted: Submission, slurm: FakeSlurm) -> None:
    (submitted.folder / "cancelled.json").write_text('{"12_0": "2026-01-09T00:00:00Z"}')
    row = only()
    assert (row.state, row.updated) == ("cancelled", "2026-01-09T00:00:00Z")
    slurm.accounts(j12_0="RUNNING")
    assert only().state == "cancelled"
    slurm.accounts(j12_0="FAILED")  # it failed before scancel reached it
    assert only().state == "failed"


def test_sorted_by_what_moves_then_by_number(world: World, slurm: FakeSlurm) -> None:
    slurm.submit(NAME, 12, *(run_id(seed) for seed in (10, 9, 2, 1, 3)))
    states = {0: "PENDING", 1: "PENDING", 2: "RUNNING"}
    slurm.queue(*(queued(f"12_{i}", state, MINE) for i, state in states.items()))
    slurm.accounts(j12_3="COMPLETED", j12_4="FAILED")
    write_status(run_id(2), "12_2")
    (write_status(run_id(1), "12_3", state="done") / "record.json").write_text("{}")
    assert [(row.state, row.run) for row in survey(old_too=True).rows] == [
        ("training", run_id(2)),
        ("queued", run_id(9)),
        ("queued", run_id(10)),
        ("failed", run_id(3)),
        ("done", run_id(1)),
    ]


def test_what_ended_long_ago_is_hidden_unless_asked_for(world: World, slurm: FakeSlurm) -> None:
    week = 8 * 86400
    write_status(run_id(1), None, state="done", age=week)
    write_status(run_id(2), None, state="done", age=5 * 86400)
    write_status(run_id(3), None, state="failed", age=week)
    slurm.submit(NAME, 12, run_id(4))  # long lost
    result = survey()
    assert ([row.run for row in result.rows], result.hidden) == ([run_id(2)], 3)
    assert (
        len(survey(old_too=True).rows) == len(survey(["alpha"]).rows) == len(survey(old_too=True).rows) == 4
    )
    slurm.queue(queued("12_0", "PENDING", MINE))
    assert [row.run for row in survey().rows] == [run_id(4), run_id(2)]


def test_unknown_targets_are_refused(submitted: Submission) -> None:
    with pytest.raises(UserError, match=r"nearest: .*alpha/base"):
        survey(["alpha/bse"])


def test_nothing_there_is_nothing(world: World, slurm: FakeSlurm) -> None:
    assert survey(old_too=True).rows == []
    assert survey(["alpha"], old_too=True).rows == []


def test_two_hundred_runs_are_two_questions_and_little_work(world: World, slurm: FakeSlurm) -> None:
    runs = [run_id(seed) for seed in range(200)]
    slurm.submit(NAME, 12, *runs)
    slurm.queue(*(queued(f"12_{i}", "RUNNING", MINE) for i in range(100)))
    slurm.accounts(**{f"j12_{i}": "FAILED" for i in range(100, 200)})
    for i, run in enumerate(runs):
        write_status(run, f"12_{i}", step=i)
    before = time.process_time()
    rows = survey(old_too=True).rows
    assert time.process_time() - before < 1.0
    assert len(rows) == 200
    assert {row.state for row in rows} == {"training", "failed"}
    assert [call[0] for call in slurm.calls()] == ["squeue", "sacct"]
