"""Runs of ``repro submit``, to their end on a real cluster."""

import json
import os
import signal
from pathlib import Path

from tests.slurm.project import PYTHON, Project
from tests.workshop import TINY

SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef-planted-1",
    "HF_TOKEN": "hf_planted-2-planted-2",
    "AWS_SECRET_ACCESS_KEY": "planted-3/planted-3+planted",
    "MY_PASSWORD": "planted-4 'with' \"quotes\"",
}


def test_two_seeds_on_two_nodes_from_submission_to_the_tables(project: Project) -> None:
    """Live status, logs, no second submission, no edit that arrives late, no secret anywhere, records, tables."""
    cluster = project.cluster
    env = {**SECRETS, "WANDB_MODE": "offline"}
    change = {"trainer.val_check_interval": 20, "checkpoints.every_steps": 20}
    project.recipe(40, change)
    project.profile(tasks_per_node=2, max_parallel=1)
    submit = ("submit", TINY, "--cluster", "local", "--scale", "cpu", "--seeds", "2", "--tables")

    output = project.repro(*submit, env=env)
    assert "2 to submit, 0 already recorded, 0 already queued" in output.out
    again = project.repro(*submit, env=env)
    assert "0 to submit, 0 already recorded, 2 already queued" in again.out
    (submission,) = (project.workshop.runs / "slurm").glob("*/submission.json")

    # An edit now, while one of the two waits in the queue.
    project.recipe(7)
    rows = project.repro("status", "--json").json()
    assert len(rows) == 2
    assert {row["state"].split(" ")[0] for row in rows} <= {"queued", "starting", "training"}
    jobs = sorted(row["job"] for row in rows)
    cluster.wait(jobs[0], "RUNNING", 60)
    followed = project.repro("logs", jobs[0], "--follow", timeout=180)
    assert "attempt 1" in followed.out
    assert "step 40/40" in followed.out
    for job in jobs:
        cluster.wait(job, "COMPLETED", 240)
        assert all(f"MEMBER: {rank}/4" in cluster.log(job) for rank in (1, 2, 3, 4))
        assert "Traceback" not in cluster.log(job), cluster.log(job)
    records = [json.loads(path.read_text()) for path in project.workshop.records()]
    assert [(r["seed"], r["steps"], r["hardware"]["count"]) for r in records] == [(1, 40, 4), (2, 40, 4)]
    assert len({r["code_sha256"] for r in records}) == 1
    tables = json.loads(submission.read_text())["jobs"][-1]
    assert tables["name"].endswith(".tables")
    cluster.wait(
        str(tables["job_id"]), "COMPLETED", 60
    )  # no sum: an array's task takes a number as it starts
    assert project.repro("tables", "--check").code == 0, (
        "the last job made them, with the recipes of its moment"
    )
    project.recipe(40, change)  # what the records are of
    done = project.repro("status", "--json").json()
    assert [row["state"] for row in done] == ["done"] * 2

    no_secret_in(project.root)
    no_secret_in_text(output.out + output.err + again.out + again.err + followed.out)


def no_secret_in(folder: Path) -> None:
    """Reads every byte: scripts, logs, configs, records, snapshots, W&B's offline files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    kinds = {path.suffix for path in files}
    assert {".sbatch", ".log", ".yaml", ".json", ".jsonl", ".py", ".ckpt", ".pt"} <= kinds, kinds
    for path in files:
        no_secret_in_text(path.read_bytes().decode("latin-1"), str(path))


def no_secret_in_text(text: str, where: str = "") -> None:
    for name, value in SECRETS.items():
        assert value not in text, (name, where)


def test_cancel_ends_a_run_that_then_can_be_submitted_again(project: Project) -> None:
    project.recipe(100_000, {"trainer.val_check_interval": 100_000})
    (row,) = project.submit(TINY, "--seeds", "1")
    project.cluster.wait_log(row["job"], "step 1/100000", 120)
    output = project.repro("cancel", TINY)
    assert row["job"] in output.out
    (again,) = project.submit(TINY, "--seeds", "1")  # at once: the first may still be saving itself
    assert again["job"] != row["job"]
    project.cluster.wait(row["job"], "CANCELLED", 60)
    assert project.cluster.restarts(row["job"]) == 0
    project.cluster.wait_log(again["job"], "resuming from step ", 120)


def test_a_grid_is_one_array_whose_runs_are_told_apart(project: Project) -> None:
    project.profile(nodes=1, max_parallel=1)
    project.recipe(6, {"checkpoints.every_steps": 1})
    grid = ("--grid", "model.net.dropout=0.1,0.2", "--seeds", "2")
    rows = project.submit(TINY, *grid)
    array = {row["job"].partition("_")[0] for row in rows}
    assert len(array) == 1
    assert [row["job"].partition("_")[2] for row in rows] == list("0123")
    assert [row["settings"] for row in rows] == [[f"--model.net.dropout=0.{n}"] for n in (1, 1, 2, 2)]
    for row in rows[1:3]:
        assert row["job"] in project.repro("cancel", row["job"]).out
    project.cluster.wait_log(rows[0]["job"], "step 1/6", 120)
    project.cluster.run("scontrol", "requeue", rows[0]["job"])
    for row in (rows[3], rows[0]):  # Slurm lets a requeued task wait
        project.cluster.wait(row["job"], "COMPLETED", 240)
        assert row["settings"][0] in project.repro("logs", row["run_id"]).out
    states = {row["run"]: row["state"] for row in project.repro("status", "--json").json()}
    assert [states[row["run_id"]] for row in rows] == ["done", "cancelled", "cancelled", "done"]
    records = [json.loads(path.read_text()) for path in project.workshop.records()]
    assert {r["run_id"] for r in records} == {rows[0]["run_id"], rows[3]["run_id"]}
    again = project.submit(TINY, *grid)
    assert [row["state"] for row in again] == ["recorded", "submitted", "submitted", "recorded"]


def test_attempts_that_never_make_a_step_end_the_requeues(project: Project) -> None:
    project.profile(nodes=1)
    early = project.root / "bin" / "python3"  # asked to stop before it can listen
    early.write_text(f'#!/bin/sh\ncase "$*" in *"repro run"*) kill -USR1 $$;; esac\nexec {PYTHON} "$@"\n')
    early.chmod(0o755)
    (row,) = project.submit(TINY, "--seeds", "1")
    project.cluster.wait(row["job"], "FAILED", 60)
    assert project.cluster.restarts(row["job"]) == 1
    assert "not requeued: two attempts in a row made no new step" in project.cluster.log(row["job"])


def test_a_rank_that_is_stopped_ends_the_job_within_the_limit(project: Project) -> None:
    project.recipe(100_000, {"trainer.val_check_interval": 100_000})
    project.profile(stall_s=5)
    (row,) = project.submit(TINY, "--seeds", "1")
    project.cluster.wait_log(row["job"], "step 1/100000", 120)
    os.kill(rank_of(row["job"], 1), signal.SIGSTOP)
    project.cluster.wait(row["job"], "FAILED", 60)
    assert "nothing moved for 5 s" in project.cluster.log(row["job"])
    (displayed,) = project.repro("status", TINY, "--json").json()
    assert displayed["state"] == "failed"
    assert project.cluster.restarts(row["job"]) == 0


def test_a_rank_that_is_killed_ends_the_job(project: Project) -> None:
    project.recipe(100_000, {"trainer.val_check_interval": 100_000})
    (row,) = project.submit(TINY, "--seeds", "1")
    project.cluster.wait_log(row["job"], "step 1/100000", 120)
    os.kill(rank_of(row["job"], 1), signal.SIGKILL)
    project.cluster.wait(row["job"], "FAILED", 60)


def rank_of(job: str, rank: int) -> int:
    """The process that trains as a rank of a job; those of the nodes are seen from the machine that hosts them."""
    array, task = (
        f"SLURM_{name}={value}"
        for name, value in zip(("ARRAY_JOB_ID", "ARRAY_TASK_ID"), job.split("_"), strict=True)
    )
    expected = {array, task, f"SLURM_PROCID={rank}"}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            variables = set((entry / "environ").read_text(errors="replace").split("\0"))
        except OSError:
            continue
        if expected <= variables and b"repro" in words and b"run" in words:
            return int(entry.name)
    raise AssertionError(f"rank {rank} of {job} is not there")


def test_an_edit_after_submission_does_not_reach_the_job(project: Project) -> None:
    project.profile(nodes=1)
    project.cluster.run("scontrol", "update", "partitionname=main", "state=down")
    try:
        (row,) = project.submit(TINY, "--seeds", "1")
        project.recipe(5)
    finally:
        project.cluster.run("scontrol", "update", "partitionname=main", "state=up")
    project.cluster.wait(row["job"], "COMPLETED", 120)
    (path,) = project.workshop.records()
    record = json.loads(path.read_text())
    assert (record["run_id"], record["steps"]) == (row["run_id"], 2)
