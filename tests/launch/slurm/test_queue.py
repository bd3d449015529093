"""Output of squeue and sacct, and their failures."""

import time

import pytest

from repro.errors import UserError
from repro.launch.slurm import queue
from repro.launch.slurm.queue import Queued, history, in_queue
from tests.launch.fake_slurm import FakeSlurm, queued, slurm

__all__ = ["slurm"]


def test_tasks_of_arrays_and_plain_jobs(slurm: FakeSlurm) -> None:
    slurm.queue(
        queued("12_0", "RUNNING", "sub-a", RestartCnt=2, StartTime="2026-11-21T13:09:47", Name="x"),
        queued("12_10", "PENDING", Reason="JobArrayTaskLimit"),
        queued("13", "PENDING", Reason="ReqNodeNotAvail, UnavailableNodes:n[1-2]", RestartCnt="N/A"),
    )
    assert in_queue() == {
        "12_0": Queued("12_0", "RUNNING", "", 2, "10:00", "sub-a", "2026-11-21T13:09:47", "x"),
        "12_10": Queued("12_10", "PENDING", "JobArrayTaskLimit", 0, "10:00", "", None, "job"),
        "13": Queued(
            "13", "PENDING", "ReqNodeNotAvail, UnavailableNodes:n[1-2]", None, "10:00", "", None, "job"
        ),
    }


@pytest.mark.parametrize(
    "text", ["a|b|c", "two\nlines", "9|0|RUNNING|None|0|1:00|N/A|job|x\n", '"q" $(x)', "|"]
)
def test_text_of_the_user_breaks_nothing(slurm: FakeSlurm, text: str) -> None:
    slurm.queue(queued("1_0", comment=text, Name=text), queued("2", comment=text), queued("3"))
    result = in_queue()
    assert list(result) == ["1_0", "2", "3"]
    assert result["1_0"].comment == result["1_0"].name == result["2"].comment == text.strip()


def test_headings_of_clusters_are_skipped(slurm: FakeSlurm) -> None:
    slurm.queue(queued("CLUSTER: east\n7_1"), queued("8"))
    assert list(in_queue()) == ["7_1", "8"]


def test_an_empty_queue(slurm: FakeSlurm) -> None:
    assert in_queue() == {}


def test_the_users_own_settings_do_not_reach_slurm(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_FORMAT", "SQUEUE_STATES", "SACCT_FORMAT", "SLURM_TIME_FORMAT"):
        monkeypatch.setenv(name, "%A")
    monkeypatch.setenv("SLURM_CONF", "/etc/x")
    in_queue()
    env = slurm.environment()
    assert not [name for name in env if name.startswith(("SQUEUE_", "SACCT_", "SLURM_TIME"))]
    assert env["SLURM_CONF"] == "/etc/x"


def test_a_missing_squeue_is_named(slurm: FakeSlurm) -> None:
    (slurm.folder / "squeue").unlink()
    with pytest.raises(UserError, match=r"PATH"):
        in_queue()


def test_a_failing_squeue_is_quoted(slurm: FakeSlurm) -> None:
    slurm.answers("squeue", code=1, err="\nslurm_load_jobs error: Unable to contact slurm controller\nmore\n")
    with pytest.raises(UserError, match="slurm_load_jobs"):
        in_queue()


def test_a_squeue_that_hangs_is_left(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "PATIENCE", 0.2)
    slurm.answers("squeue", hangs=True)
    before = time.monotonic()
    with pytest.raises(UserError, match="squeue did not answer within"):
        in_queue()
    assert time.monotonic() - before < 4


def test_a_squeue_that_cannot_be_started(slurm: FakeSlurm) -> None:
    (slurm.folder / "squeue").chmod(0o644)
    with pytest.raises(UserError, match="squeue"):
        in_queue()


SHAPES = """\
12_0|COMPLETED
12_1|CANCELLED by 1000
12_2|OUT_OF_MEMORY
12_3|CANCELLED+
13|NODE_FAIL
14_5|RUNNING
14_[4-6,9%2]|CANCELLED by 0
15_[0-8:4]|PENDING
garbage
16|

"""


def test_states_that_accounting_knows(slurm: FakeSlurm) -> None:
    slurm.answers("sacct", out=SHAPES)
    jobs = ["12_0", "12_1", "12_2", "12_3", "13", "14_4", "14_5", "14_6", "14_7", "14_9"]
    assert history([*jobs, "15_0", "15_4", "15_5", "15_8", "16", "17_0"]) == {
        "12_0": "COMPLETED",
        "12_1": "CANCELLED",
        "12_2": "OUT_OF_MEMORY",
        "12_3": "CANCELLED",
        "13": "NODE_FAIL",
        "14_4": "PENDING",  # in a range: it never started
        "14_5": "RUNNING",  # its own line, though it once waited in the range
        "14_6": "PENDING",
        "14_7": "PENDING",  # its array is known, it is not: it never started
        "14_9": "PENDING",
        "15_0": "PENDING",
        "15_4": "PENDING",
        "15_5": "PENDING",
        "15_8": "PENDING",
    }


def test_only_what_was_asked_for_is_answered(slurm: FakeSlurm) -> None:
    slurm.answers("sacct", out=SHAPES)
    assert history(["12_0"]) == {"12_0": "COMPLETED"}


def test_accounting_is_asked_by_array(slurm: FakeSlurm) -> None:
    slurm.answers("sacct", out="")
    history(["9_0", "9_1", "10_0", "11", "not a job; rm -rf x"])
    assert [call[-1] for call in slurm.calls("sacct")] == ["9,10,11"]


def test_no_job_no_question(slurm: FakeSlurm) -> None:
    slurm.answers("sacct", out=SHAPES)
    assert history([]) == {}
    assert slurm.calls("sacct") == []


def test_accounting_that_is_missing_or_broken_says_nothing(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert history(["12_0"]) == {}
    slurm.answers("sacct", out=SHAPES, code=1, err="Slurm accounting storage is disabled\n")
    assert history(["12_0"]) == {}
    monkeypatch.setattr(queue, "PATIENCE", 0.2)
    slurm.answers("sacct", hangs=True)
    assert history(["12_0"]) == {}
