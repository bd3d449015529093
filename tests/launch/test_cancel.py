"""Exactly the tasks that were named leave the queue."""

import json
from dataclasses import replace

import pytest

from repro.errors import ReproError, UserError
from repro.launch import cancel as cancelling
from repro.launch.cancel import cancel, candidates
from repro.launch.status.ledger import ArrayTask, Job, Submission, write_submission
from tests.launch.conftest import World
from tests.launch.fake_slurm import FakeSlurm, queued, run_id, slurm

__all__ = ["slurm"]
OLD, NEW, LAST = "20260101T000000Z-aa", "20260201T000000Z-bb", "20260301T000000Z-cc"


@pytest.fixture
def full(world: World, slurm: FakeSlurm) -> FakeSlurm:
    """Two submissions, the tables of a third, and jobs of others in the queue."""
    slurm.submit(OLD, 12, run_id(1), run_id(2), run_id(3), run_id(1, "beta/only"))
    slurm.submit(NEW, 13, run_id(1), run_id(4))
    write_submission(Submission("20260202T0Z-c", "site", "x", None, None, (Job("tables", "t", 14, (), ()),)))
    slurm.queue(
        queued("12_0", "PENDING", OLD),
        queued("12_1", "RUNNING", OLD),
        queued("12_2", "COMPLETING", OLD),
        queued("13_0", "PENDING", NEW),
        queued("13_1", "RUNNING", "of another cluster"),
        queued("14", "PENDING", "20260202T0Z-c", Name="tables"),
        queued("120_1", "RUNNING", OLD),
        queued("99", "RUNNING"),
    )
    slurm.answers("scancel")
    return slurm


def jobs(targets: list[str], every: bool = False) -> list[str]:
    return [queued.job for _, queued in candidates(targets, every)]


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (["alpha"], ["12_0", "12_1", "13_0"]),
        ([run_id(1)], ["12_0", "13_0"]),  # whichever submission queued it
        (["12"], ["12_0", "12_1"]),
        (["12_1"], ["12_1"]),
        (["13"], ["13_0"]),  # 13_1 in this queue is not ours
        (["12_2"], []),  # it is leaving
        (["14"], ["14"]),
        ([OLD], ["12_0", "12_1"]),
        (["beta"], []),
        (["12_0", "alpha/base", run_id(2)], ["12_0", "12_1", "13_0"]),
    ],
)
def test_what_is_meant(full: FakeSlurm, targets: list[str], expected: list[str]) -> None:
    assert jobs(targets) == expected
    assert full.calls("scancel") == []


def test_all_is_all_of_the_ledger_and_no_more(full: FakeSlurm) -> None:
    assert jobs([], every=True) == ["12_0", "12_1", "13_0", "14"]


@pytest.mark.parametrize(
    ("targets", "every", "part"),
    [
        ([], False, "--all"),
        (["alpha"], True, "--all cancels everything"),
        (["99"], False, "job 99 was not submitted from here"),
        (["120_1"], False, "job 120_1 was not submitted from here"),
        (["alpah"], False, "nearest: alpha"),
    ],
)
def test_refused(full: FakeSlurm, targets: list[str], every: bool, part: str) -> None:
    with pytest.raises(UserError, match=part):
        candidates(targets, every)


def test_what_waits_for_a_cancelled_task_is_cancelled_with_it(full: FakeSlurm) -> None:
    """Slurm would start it: to it a task that was cancelled while it waited counts as one that succeeded."""
    made = full.submit(LAST, 15, run_id(1, "beta/only"), job="first")
    (first,) = made.jobs
    tasks = tuple(ArrayTask(i, "beta/next", "cpu", 1, run_id(i, "beta/next")) for i in range(2))
    later = (Job("next", "b.sbatch", 16, ("first",), tasks), Job("free", "c.sbatch", 17, (), tasks))
    write_submission(replace(made, jobs=(replace(first, after=("12_0",)), *later)))
    full.queue(
        queued("12_0", "PENDING", OLD),
        queued("12_1", "PENDING", OLD),
        *(queued(job, "PENDING", LAST) for job in ("15_0", "16_0", "16_1", "17_0")),
    )
    assert jobs(["12_1"]) == ["12_1"]
    cancel(candidates(["12_0"]))
    assert full.calls("scancel") == [["scancel", "12_0", "15_0", "16_0"]]


def test_scancel_gets_the_tasks_and_nothing_else(full: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancelling, "AT_ONCE", 2)
    monkeypatch.setenv("SCANCEL_STATE", "RUNNING")
    cancel(candidates([], every=True))
    assert full.calls("scancel") == [["scancel", "12_0", "12_1"], ["scancel", "13_0", "14"]]
    assert "SCANCEL_STATE" not in full.environment()


def test_the_ledger_notes_what_was_cancelled(full: FakeSlurm, world: World) -> None:
    cancel(candidates(["12_1"]))
    cancel(candidates([run_id(1)]))
    notes = {name: world.root / "runs" / "slurm" / name / "cancelled.json" for name in (OLD, NEW)}
    assert list(json.loads(notes[OLD].read_text())) == ["12_1", "12_0"]
    assert list(json.loads(notes[NEW].read_text())) == ["13_0"]


def test_a_task_that_has_just_ended_is_no_failure(full: FakeSlurm) -> None:
    tasks = candidates(["12"])
    full.answers(
        "scancel", refuses={"12_0": "scancel: error: Kill job error on job id 12_0: already finished\n"}
    )
    full.queue(queued("12_1", "COMPLETING", OLD))
    cancel(tasks)


def test_a_task_that_slurm_keeps_is_a_failure(full: FakeSlurm, world: World) -> None:
    full.answers("scancel", refuses={"12_1": "scancel: error: Access/permission denied\n"})
    tasks = candidates(["12"])
    full.queue(queued("12_1", "RUNNING", OLD))
    with pytest.raises(ReproError, match=r"permission denied; still in the queue: 12_1$") as caught:
        cancel(tasks)
    assert caught.value.exit_code == 1
    assert list(json.loads((world.root / "runs" / "slurm" / OLD / "cancelled.json").read_text())) == ["12_0"]


def test_no_queue_no_cancelling(full: FakeSlurm) -> None:
    full.answers("squeue", code=1, err="Unable to contact slurm controller")
    with pytest.raises(UserError, match="Unable to contact"):
        candidates(["alpha"])
