"""``repro status``, ``logs`` and ``cancel`` beside a real Slurm."""

import dataclasses
import subprocess
from pathlib import Path

import pytest

from repro.events import status as status_of
from repro.launch.cancel import cancel, candidates
from repro.launch.slurm.queue import history, in_queue
from repro.launch.status.ledger import ArrayTask, Job, Submission, write_submission
from repro.launch.status.state import survey
from tests.slurm.control import Cluster
from tests.slurm.project import PYTHON, Project
from tests.workshop import TINY

NAME = "20260101T000000Z-aa"
RUNS = [f"alpha/base/cpu/s{seed}-0123abcd" for seed in range(5)]


@pytest.fixture
def here(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """This process talks to the cluster, with runs of its own."""
    for name, value in {**cluster.env, "REPRO_RUNS": str(tmp_path / "runs")}.items():
        monkeypatch.setenv(name, value)
    return cluster


def submit(cluster: Cluster, script: str, *options: str, tasks: int = 1) -> str:
    """Queues an array that only pretends to train, with its entry in the ledger; returns its number."""
    array = tuple(ArrayTask(i, "alpha/base", "cpu", i, RUNS[i]) for i in range(tasks))
    made = Submission(
        NAME, "local", "repro submit", None, None, (Job("pretend", "a.sbatch", None, (), array),)
    )
    write_submission(made)
    (made.folder / "logs").mkdir()
    log = f"--output={made.folder.absolute()}/logs/%A_%a.log"
    words = [
        f"--array=0-{tasks - 1}",
        "--job-name=pretend",
        f"--comment=repro:{NAME}:pretend",
        "--open-mode=append",
        log,
    ]
    number = cluster.sbatch(f"#!/bin/bash\n{script}\n", *words, "--requeue", *options)
    job = dataclasses.replace(made.jobs[0], job_id=int(number))
    write_submission(dataclasses.replace(made, jobs=(job,)))
    return number


def states(*targets: str) -> dict[str, str]:
    return {str(row.job).partition("_")[2]: row.label for row in survey(targets, old_too=True).rows}


def test_each_way_to_end_is_told_apart(here: Cluster) -> None:
    script = "case $SLURM_ARRAY_TASK_ID in 0) exit 0;; 1) exit 3;; esac; echo up; exec sleep 300"
    number = submit(here, script, "--chdir=/", tasks=5)
    here.wait(f"{number}_0", "COMPLETED")
    here.wait(f"{number}_1", "FAILED")
    here.wait_log(f"{number}_2", "up")

    cancel(candidates([f"{number}_2"]))
    here.wait(f"{number}_2", "CANCELLED")
    here.run("scancel", f"{number}_3")  # by hand, behind our back
    here.wait(f"{number}_3", "CANCELLED")
    here.wait_log(f"{number}_4", "up")

    ended = {"0": "COMPLETED", "1": "FAILED", "2": "CANCELLED", "3": "CANCELLED"}
    jobs = {f"{number}_{index}": state for index, state in ended.items()}
    here.until(lambda: history(list(jobs)) == jobs, f"accounting of {jobs}")
    # The first left with 0 and no record: whatever it did, it was no run.
    assert states() == {"0": "lost", "1": "failed", "2": "cancelled", "3": "cancelled", "4": "starting"}


def test_a_task_cancelled_while_it_waits_is_cancelled(here: Cluster) -> None:
    number = submit(here, "exit 0", "--begin=now+1hour", "--chdir=/", tasks=3)
    waiting = {str(i): "queued (BeginTime)" for i in range(3)}
    here.until(lambda: states() == waiting, "a reason why the tasks wait")
    cancel(candidates([RUNS[1]]))
    assert sorted(in_queue()) == [f"{number}_0", f"{number}_2"]
    assert states(RUNS[1]) == {"1": "cancelled"}
    here.run("scancel", f"{number}_2")  # here the accounting goes on saying PENDING
    here.until(lambda: states(RUNS[2]) == {"2": "cancelled"}, "accounting to know the task")
    assert states(RUNS[0]) == {"0": "queued (BeginTime)"}


def test_a_requeued_job_says_so_and_counts(here: Cluster) -> None:
    number = submit(here, "echo up; exec sleep 300", "--chdir=/")
    task = f"{number}_0"
    here.wait_log(task, "up")
    here.run("scontrol", "requeue", task)
    here.wait(task, "PENDING")
    (row,) = survey(old_too=True).rows
    assert (row.state, row.restarts, row.reason) == ("requeued", 1, "BeginTime")
    here.wait(task, "RUNNING")
    (row,) = survey(old_too=True).rows
    assert (row.state, row.restarts, row.job) == ("starting", 1, task)


def test_cancelling_leaves_other_jobs_alone(here: Cluster) -> None:
    other = here.sbatch("#!/bin/bash\nexec sleep 300\n", "--chdir=/", "--job-name=pretend")
    submit(here, "exec sleep 300", "--chdir=/", tasks=2)
    cancel(candidates([], every=True))
    here.until(lambda: set(in_queue()) == {other}, "only the other job to be left")
    assert candidates([], every=True) == []


def row_of(project: Project, run_id: str) -> dict[str, object]:
    (row,) = project.repro("status", run_id, "--json").json()
    assert isinstance(row, dict)
    return row


def test_a_run_is_watched_followed_and_cancelled(project: Project) -> None:
    project.recipe(1_000_000)
    project.profile(nodes=1, max_parallel=1)
    cluster = project.cluster
    first, second = project.submit(TINY, "--seeds", "2")
    run, job = str(first["run_id"]), str(first["job"])

    cluster.until(lambda: row_of(project, run)["state"] == "training", f"{run} training", 120, job)
    row = row_of(project, run)
    assert (row["job"], row["max_steps"], row["restarts"]) == (job, 1_000_000, 0)
    assert isinstance(row["step"], int)
    assert row["step"] > 0
    assert row_of(project, str(second["run_id"]))["reason"] == "JobArrayTaskLimit"
    table = project.repro("status").out.splitlines()
    assert [line.split()[:2] for line in table[4:]] == [[run, "training"], [second["run_id"], "queued"]]
    assert "attempt 1" in project.repro("logs", run).out

    follow = subprocess.Popen(
        [str(PYTHON), "-m", "repro", "logs", run, "--follow", "--lines", "1"],
        env=project.env | cluster.env, cwd=project.root, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert f"cancelled: {job}" in project.repro("cancel", run).out
    output, _ = follow.communicate(timeout=90)
    assert (follow.returncode, output.count("\n") > 0) == (0, True)

    cluster.wait(job, "CANCELLED", 90)
    assert cluster.restarts(job) == 0
    assert row_of(project, run)["state"] == "cancelled"
    status = status_of(project.workshop.runs / run)
    assert (status["state"], status["step"] >= row["step"]) == ("requeue", True)  # it saved itself first
    saved = sorted((project.workshop.runs / run / "checkpoints").glob("*.ckpt"))
    assert f"{status['step']:08d}" in saved[-1].name

    cluster.wait(str(second["job"]), "RUNNING")
    project.repro("cancel", "--all")
    cluster.until(lambda: not cluster.run("squeue", "-h").stdout, "an empty queue", 90)
    assert project.repro("cancel", "--all").out.startswith("nothing to cancel")
    assert row_of(project, str(second["run_id"]))["state"] == "cancelled"


def test_doctor_lets_two_nodes_meet(project: Project) -> None:
    said = project.repro("doctor", "--cluster", "local").out
    assert said.startswith("ok    local")
    assert "node1: torch" in said
    assert "node2: torch" in said

    path = f"export PATH={project.root / 'bin'}:{PYTHON.parent}:$PATH"
    project.profile("apart", setup=[path, "export REPRO_RUNS=/dev/shm"])  # each node has its own
    failed = project.repro("doctor", "--cluster", "apart", check=False)
    assert failed.code == 1
    assert failed.out.startswith("fail  apart")
    assert "does not see what other nodes write to /dev/shm" in failed.out
