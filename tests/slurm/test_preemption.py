"""Preempted by a time limit, by a requeue and by a node's crash, a run ends as if nothing had happened."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from repro import events
from repro.training.checkpoints import checkpoint_path, read
from tests.experiment.runner import differences
from tests.slurm.control import Cluster
from tests.slurm.project import Project, make_project
from tests.wandb_server import WandbServer
from tests.workshop import PROJECT, TINY

STEPS = 500
# Slurm looks at time limits every 30 s: the run must last longer on a fast machine, too.
BRAKE = """\
import time
from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(lambda *_: time.sleep(0.15))
"""


def status(project: Project) -> dict[str, Any]:
    (folder,) = project.run_folders()
    return events.status(folder)


def reach(project: Project, attempt: int) -> None:
    """Waits until an attempt has written checkpoints of its own."""

    def there() -> bool:
        if not project.run_folders() or status(project).get("attempt") != attempt:
            return False
        (folder,) = project.run_folders()
        steps = [int(path.name[5:13]) for path in folder.glob("checkpoints/step-*.ckpt.json")]
        return max(steps, default=0) > status(project)["resumed_from"] + 50

    project.cluster.until(there, f"progress in attempt {attempt}", 240)


@pytest.mark.timeout(1200)
def test_preempted_three_times_a_run_ends_bit_equal_under_one_id(
    cluster: Cluster, project: Project, tmp_path: Path, small_store: Path
) -> None:
    change = {
        "trainer.val_check_interval": 250,
        "checkpoints.every_steps": 50,
        "data.batch_tokens": 300,
    }
    undisturbed = make_project(tmp_path / "undisturbed", small_store, cluster)
    for one in (project, undisturbed):
        one.recipe(STEPS, change)
    (project.root / "sitecustomize.py").write_text(BRAKE)  # imported by each Python that finds it
    env = {"WANDB_MODE": "offline", "PYTHONPATH": f"{project.root}:{PROJECT}"}
    submit = ("submit", TINY, "--cluster", "local", "--scale", "cpu", "--seeds", "1", "--json")
    (row,) = project.repro(*submit, env=env).json()
    job = row["job"]

    reach(project, attempt=1)
    cluster.run(
        "scontrol", "update", f"jobid={job}", "timelimit=00:02:00"
    )  # USR1 comes two minutes before it
    cluster.until(lambda: "asked to stop" in cluster.log(job), "the signal", 120, job)
    cluster.run("scontrol", "update", f"jobid={job}", "timelimit=00:20:00")  # a busy machine takes its time
    reach(project, attempt=2)
    first = status(project)["resumed_from"]
    assert first > 0
    assert f"saved at step {first}" in cluster.log(job)

    cluster.run("scontrol", "requeue", job)  # TERM to the ranks and to the batch shell
    reach(project, attempt=3)
    second = status(project)["resumed_from"]
    assert second > first
    assert f"saved at step {second}" in cluster.log(job)

    cluster.crash("node2")  # no signal, no word
    cluster.until(
        lambda: cluster.state(job) == "PENDING" or status(project)["attempt"] == 4, "requeue", 120, job
    )
    cluster.boot("node2")
    cluster.wait(job, "COMPLETED", 480)
    log = cluster.log(job)
    assert "MailboxClosedError" not in log, "W&B leaves quietly when the job is stopped"
    resumed = [int(step) for step in re.findall(r"resuming from step (\d+)", log)]
    # slurmctld sends a signal again, a minute later, that a node did not acknowledge: the attempt after the crash is
    # asked to stop by the one that was meant for the crashed node. It saves, or has nothing to save: it is in its test.
    assert len(resumed) == status(project)["attempt"] - 1
    assert len(resumed) >= 3
    graceful = [step for step in (*resumed[:2], *resumed[3:]) if step < STEPS]
    assert all(f"saved at step {step}" in log for step in graceful)
    assert resumed[:2] == [first, second]
    third = resumed[2]
    assert third >= second
    assert third % 50 == 0, "a crash leaves what was saved before it"

    (other,) = undisturbed.repro(*submit).json()
    cluster.wait(other["job"], "COMPLETED", 480)
    mine, official = (p.run_folders()[0] for p in (project, undisturbed))
    result, expected = (read(checkpoint_path(f / "checkpoints", STEPS)) for f in (mine, official))
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "random_states"):
        assert not differences(result[part], expected[part], part)[:3]
    models = [json.loads((f / "record.json").read_text()) for f in (mine, official)]
    assert models[0]["checkpoint_sha256"] == models[1]["checkpoint_sha256"]
    assert models[0]["metrics"] == models[1]["metrics"]
    assert models[0]["curves"]["train/loss"] == models[1]["curves"]["train/loss"]

    rows = [events.curves(events.read(f / events.EVENTS_FILE)) for f in (mine, official)]
    assert rows[0]["train/loss"] == rows[1]["train/loss"]
    server = WandbServer()
    there = {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "x" * 40}
    assert "complete" in project.repro("sync", row["run_id"], env=there).out
    (run,) = server.rows
    assert run == events.read(mine / events.EVENTS_FILE)[0]["wandb_id"]
    steps = [r["trainer/global_step"] for r in server.rows[run] if "train/loss" in r]
    assert steps == [int(step) for step, _ in rows[0]["train/loss"]], "each once, in order"
