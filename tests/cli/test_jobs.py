"""``repro status``, ``logs`` and ``cancel`` as commands."""

from pathlib import Path

import pytest

from repro.cli.arguments import runs_and_jobs
from tests.cli.test_startup import process
from tests.launch.fake_slurm import FakeSlurm, queued, run_id, slurm, write_status
from tests.workshop import TINY, Workshop, call

__all__ = ["slurm"]
NAME = "20260101T000000Z-aa"
FIRST, SECOND = run_id(1, TINY), run_id(2, TINY)


@pytest.fixture
def full(workshop: Workshop, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.setenv("REPRO_RUNS", str(workshop.runs))
    slurm.submit(NAME, 12, FIRST, SECOND)
    slurm.queue(queued("12_0", "RUNNING", NAME), queued("12_1", "PENDING", NAME, Reason="Priority"))
    slurm.answers("scancel")
    write_status(FIRST, updated="2030-01-01T00:00:00Z", step=3, max_steps=9)
    (workshop.runs / "slurm" / NAME / "logs" / "12_0.log").write_text("one\ntwo\n")
    return slurm


def test_status_is_a_table(full: FakeSlurm) -> None:
    output = call("status")
    assert output.code == 0
    first, second = (line.split() for line in output.out.splitlines()[4:])
    assert first[:3] == [FIRST, "training", "3/9"]
    assert second[:4] == [SECOND, "queued", "(Priority)", "12_1"]


def test_status_sums_up(full: FakeSlurm) -> None:
    lines = call("status").out.splitlines()
    assert lines[:3] == ["2 runs: 1 running, 1 queued", lines[1], ""]
    assert call("status", "--summary").out.splitlines() == lines[:2]
    (summary,) = call("status", "--summary", "--json").json()
    assert (summary["running"], summary["queued"], summary["done"]) == (1, 1, 0)
    call("status", "--summary", "--watch", "5").refused("--summary are printed once")


def test_status_as_one_array(full: FakeSlurm) -> None:
    first, second = call("status", "--json").json()
    assert (first["run"], first["state"], first["step"], first["ended"]) == (FIRST, "training", 3, False)
    assert (second["state"], second["reason"], second["job"]) == ("queued", "Priority", "12_1")
    assert [row["run"] for row in call("status", "12_1", "--json").json()] == [SECOND]


def test_status_without_slurm_says_so_once(full: FakeSlurm) -> None:
    (full.folder / "squeue").unlink()
    output = call("status", "--json")
    assert [row["state"] for row in output.json()] == ["submitted", "training"][::-1]
    assert output.err.count("squeue is not on PATH") == len(output.err.splitlines()) == 1


def test_watching_ends_with_the_runs(full: FakeSlurm, workshop: Workshop) -> None:
    full.queue()
    (workshop.runs / "slurm" / NAME / "cancelled.json").write_text(
        '{"12_0": "2030", "12_1": "2030-01-01T00:00:00Z"}'
    )
    output = call("status", "--watch", "5")
    assert output.code == 0
    assert output.out.count("cancelled") == 2


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["status", "nope"], ["'nope'", "repro status --all"]),
        (["status", f"{TINY}x"], [f"nearest: {TINY}"]),
        (["status", "--watch", "0"], ["--watch must be from 1"]),
        (["status", "--watch", "nan"], ["--watch must be from 1"]),
        (["status", "--watch", "5", "--json"], ["--watch"]),
        (["logs", "nope"], ["'nope'"]),
        (["logs", FIRST, "--lines", "-1"], ["--lines must be at least 0"]),
        (["logs", TINY, "--seed", "7"], ["no run with seed 7"]),
        (["cancel"], ["--all"]),
        (["cancel", "99"], ["job 99 was not submitted from here"]),
        (["cancel", TINY, "--all"], ["--all cancels everything"]),
    ],
    ids=" ".join,
)
def test_bad_input(full: FakeSlurm, words: list[str], parts: list[str]) -> None:
    call(*words).refused(*parts)
    assert full.calls("scancel") == []


def test_logs(full: FakeSlurm, workshop: Workshop) -> None:
    assert call("logs", FIRST).out == "one\ntwo\n"
    assert call("logs", "12_0", "-n", "1").out == "two\n"
    assert call("logs", SECOND).out == "12_1: queued, no output yet\n"
    several = call("logs", TINY)
    assert several.out == "one\ntwo\n"
    assert "of 2 runs" in several.err
    file = workshop.runs / "slurm" / NAME / "logs" / "12_0.log"
    assert call("logs", TINY, "--seed", "1", "--job").out == f"12_0  {file}\n"


def test_a_log_that_never_was(full: FakeSlurm) -> None:
    full.queue()
    call("logs", SECOND).refused("left the queue without output", code=1)


def test_cancel(full: FakeSlurm, workshop: Workshop) -> None:
    dry = call("cancel", TINY, "--dry-run")
    assert dry.out.splitlines() == [
        f"would be cancelled: 12_0  {FIRST}  (running)",
        f"would be cancelled: 12_1  {SECOND}  (pending)",
    ]
    assert full.calls("scancel") == []
    done = call("cancel", SECOND)
    assert (done.code, done.out) == (0, f"cancelled: 12_1  {SECOND}  (pending)\n")
    assert "save a checkpoint first" in call("cancel", "--all").out
    assert full.calls("scancel") == [["scancel", "12_1"], ["scancel", "12_0", "12_1"]]
    full.queue()
    nothing = call("cancel", "--all")
    assert (nothing.code, nothing.out) == (0, "nothing to cancel: no such run is in the queue\n")
    assert [row["state"] for row in call("status", "--json").json()] == ["cancelled", "cancelled"]


def test_completion(full: FakeSlurm) -> None:
    assert {TINY, FIRST, SECOND, "12_0", "12_1"} <= set(runs_and_jobs())


@pytest.mark.parametrize("words", [("status",), ("status", "--json"), ("logs", FIRST), ("cancel", "--all")])
def test_no_heavy_import(full: FakeSlurm, words: tuple[str, ...]) -> None:
    done = process(*words)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "loaded:")


def test_help_says_what_is_hidden(full: FakeSlurm, tmp_path: Path) -> None:
    assert "7 days" in call("status", "--help").out
