"""Submitting twice queues nothing twice, whatever happens in between; what Slurm refuses leaves nothing behind.

``sbatch`` and ``squeue`` are small scripts that share a queue here, so that they can fail at a chosen moment; on a
real Slurm the same is tried in tests/slurm.
"""

import dataclasses
import fcntl
import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from repro.code.plugins import hashes
from repro.code.source import code_hash
from repro.errors import ReproError, UserError
from repro.events import EventLog
from repro.launch import submit as module
from repro.launch.plan import Plan
from repro.launch.status.ledger import Submission, read_submissions
from repro.launch.submit import dry_run, locked, submit
from repro.launch.targets import resolve_targets
from repro.paths import PROJECT
from tests.launch.conftest import World, named
from tests.launch.fake_cluster import FakeCluster, cluster, small_project
from tests.launch.test_plan import request

__all__ = ["cluster", "small_project"]


pytestmark = pytest.mark.usefixtures("small_project")


def quiet(line: str) -> None:
    """Takes the place of the terminal."""


def submitted(*targets: str, **changes: Any) -> Submission:
    entry = submit(request(*targets, **changes), quiet)[1]
    assert entry is not None
    return entry


@pytest.fixture
def chain(world: World) -> World:
    world.write("configs/gamma/tuned.yaml", "title: t\nstart_from: alpha/base\n")
    return world


def test_a_submission(world: World, cluster: FakeCluster) -> None:
    lines: list[str] = []
    plan, entry = submit(request("alpha:table2", command="repro submit alpha:table2"), lines.append)
    assert cluster.tasks() == ["1_0", "1_1", "1_2", "1_3"]
    assert cluster.comments() == [f"repro:{plan.places.submission.name}:alpha.table2.paper"] * 4
    assert read_submissions() == [entry]
    assert entry is not None
    (job,) = entry.jobs
    assert (job.name, job.job_id, job.after) == ("alpha.table2.paper", 1, ())
    assert [dataclasses.astuple(t) for t in job.tasks] == [
        (i, r.recipe.experiment, "paper", r.seed, r.run_id) for i, r in enumerate(plan.runs)
    ]
    assert entry.command == "repro submit alpha:table2"
    assert lines[0].startswith("runs: 4 to submit")


def test_all_is_there_before_sbatch_is_called(
    world: World, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def spy(script: Path, profile: object) -> int:
        seen.append(script)
        folder = script.parent
        assert script.read_text().startswith("#!/bin/bash\n")
        assert (folder / "logs").is_dir()
        assert (folder / "code" / "repro" / "paths.py").is_file()
        assert (folder / "code" / "configs" / "alpha" / "base.yaml").is_file()
        assert set(json.loads((folder / "code" / "snapshot.json").read_text())) == {"commit", "dirty"}
        assert json.loads((folder / "submission.json").read_text())["jobs"][0]["job_id"] is None
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(script.stat().st_mode) == 0o600
        return 5

    monkeypatch.setattr(module, "submit_script", spy)
    entry = submitted("alpha/base")
    assert seen == [entry.folder / "alpha.base.paper.sbatch"]
    assert read_submissions()[0].jobs[0].job_id == 5


def test_the_umask_of_the_shell_is_left_alone(world: World, cluster: FakeCluster) -> None:
    """Slurm hands it on to the job, whose records others may have to read."""
    before = os.umask(0o022)
    try:
        submitted("alpha/base")
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_twice_is_once(world: World, cluster: FakeCluster) -> None:
    submitted("alpha/base")
    plan, entry = submit(request("alpha/base", tables=True), quiet)
    assert entry is None
    assert plan.jobs == ()
    assert len(cluster.calls("sbatch")) == 1
    assert len(read_submissions()) == 1
    assert submitted("alpha/base", seeds=named(1, 2, 3)).jobs[0].tasks[0].seed == 3


@pytest.mark.parametrize("refused", [False, True])
def test_a_task_that_slurm_holds_after_a_failed_start_is_released(
    world: World, cluster: FakeCluster, refused: bool
) -> None:
    lines: list[str] = []
    submit(request("alpha/base"), lines.append)
    path = cluster.folder / "squeue.json"
    tasks = json.loads(path.read_text())["tasks"]
    tasks[0] |= {"State": "PENDING", "Reason": "launch failed requeued held"}
    tasks[1] |= {"State": "PENDING", "Reason": "JobHeldUser"}  # the user's own wish
    cluster.queue(*tasks)
    cluster.answers("scontrol", code=int(refused))
    submit(request("alpha/base"), lines.append)
    held = f"{tasks[0]['ArrayJobID']}_{tasks[0]['ArrayTaskID']}"
    assert cluster.calls("scontrol")[-1] == ["scontrol", "release", held]
    assert any(line.startswith(f"released: task {held}") for line in lines) == (not refused)
    assert len(cluster.calls("sbatch")) == 1, "it is in the queue: not submitted again"


def test_what_left_the_queue_without_a_record_goes_again(world: World, cluster: FakeCluster) -> None:
    submitted("alpha/base")
    cluster.end("1_1")
    (job,) = submitted("alpha/base").jobs
    assert [(t.index, t.seed) for t in job.tasks] == [(0, 2)]
    assert cluster.tasks() == ["1_0", "2_0"]
    assert submit(request("alpha/base"), quiet)[1] is None


def test_an_id_that_was_given_again_is_not_ours(world: World, cluster: FakeCluster) -> None:
    """The cluster was set up again, so ids are reused."""
    submitted("alpha/base")
    tasks = json.loads((cluster.folder / "squeue.json").read_text())["tasks"]
    cluster.queue(*({**task, "Comment": "another's job"} for task in tasks))
    assert len(submitted("alpha/base").jobs[0].tasks) == 2


def test_chains_wait_by_id(chain: World, cluster: FakeCluster) -> None:
    entry = submitted("gamma/tuned", tables=True)
    assert [(j.name, j.job_id, j.after) for j in entry.jobs] == [
        ("gamma.tuned.paper.1", 1, ()),
        ("gamma.tuned.paper.2", 2, ("gamma.tuned.paper.1",)),
        ("gamma.tuned.paper.tables", 3, ()),
    ]
    scripts = [(entry.folder / job.script).read_text() for job in entry.jobs]
    assert "#SBATCH --dependency=aftercorr:1\n" in scripts[1]
    assert "#SBATCH --dependency=afterany:1:2\n" in scripts[2]
    assert "<id" not in "".join(scripts)


def test_a_prerequisite_of_an_earlier_submission_is_waited_for(chain: World, cluster: FakeCluster) -> None:
    submitted("alpha/base", seeds=named(1, 2, 3))
    entry = submitted("gamma/tuned", seeds=named(2, 3))
    for job, task in zip(entry.jobs, ("1_1", "1_2"), strict=True):
        assert f"#SBATCH --dependency=afterok:{task}\n" in (entry.folder / job.script).read_text()


@pytest.mark.parametrize("died_at", [1, 2, 3])
def test_a_crash_between_sbatch_and_the_ledger(
    chain: World, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, died_at: int
) -> None:
    """The process dies when the id of its n-th job should be written down; the job is queued, its id unknown."""
    real, writes = module.write_submission, 0

    def dies(entry: Submission) -> None:
        nonlocal writes
        writes += 1
        if writes == 1 + died_at:
            raise SystemExit("killed")
        real(entry)

    monkeypatch.setattr(module, "write_submission", dies)
    with pytest.raises(SystemExit):
        submit(request("gamma/tuned", tables=True), quiet)
    monkeypatch.setattr(module, "write_submission", real)
    assert len(cluster.calls("sbatch")) == died_at
    assert read_submissions()[0].jobs[died_at - 1].job_id is None

    submit(request("gamma/tuned", tables=True), quiet)
    assert read_submissions()[0].jobs[died_at - 1].job_id == died_at
    queued = [t.run_id for e in read_submissions() for j in e.jobs if j.job_id for t in j.tasks]
    assert len(queued) == len(set(queued)) == 4
    assert submit(request("gamma/tuned"), quiet)[1] is None


def test_a_dry_run_completes_the_ledger_in_memory_only(
    world: World, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = submitted("alpha/base")
    module.write_submission(
        dataclasses.replace(entry, jobs=(dataclasses.replace(entry.jobs[0], job_id=None),))
    )
    plan, summary = dry_run(request("alpha/base"))
    assert plan.jobs == ()
    assert "2 already queued" in summary[0]
    assert read_submissions()[0].jobs[0].job_id is None


def test_two_at_once(world: World, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """While another holds the lock nothing is planned; afterwards its jobs are seen."""
    (world.root / "runs" / "slurm").mkdir(parents=True)
    results: list[Submission | None] = []
    with open(world.root / "runs" / "slurm" / ".lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        threads = [
            threading.Thread(target=lambda: results.append(submit(request("alpha/base"), quiet)[1]))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        threads[0].join(0.3)
        assert results == []
        assert cluster.tasks() == []
    for thread in threads:
        thread.join(30)
    assert len(results) == 3
    assert len([r for r in results if r is not None]) == 1
    assert cluster.tasks() == ["1_0", "1_1"]
    assert "another `repro submit` is at work" in capsys.readouterr().err


def test_a_run_that_waits_for_a_cancelled_one_is_queued_again(chain: World, cluster: FakeCluster) -> None:
    """Slurm takes such a task out of the queue some seconds later."""
    entry = submitted("gamma/tuned")
    parent, child = entry.jobs
    (entry.folder / "cancelled.json").write_text(f'{{"{parent.job_id}_1": "2026-01-09T00:00:00Z"}}')
    tasks = json.loads((cluster.folder / "squeue.json").read_text())["tasks"]
    cluster.queue(
        *({**t, "State": "PENDING"} for t in tasks if (t["ArrayJobID"], t["ArrayTaskID"]) != ("1", "1"))
    )
    plan, again = submit(request("gamma/tuned"), quiet)
    assert again is not None
    assert {spec.run_id for spec in plan.runs} == {parent.tasks[1].run_id, child.tasks[1].run_id}


def test_a_run_that_waits_for_a_cancelled_one_of_an_earlier_submission_is_queued_again(
    chain: World, cluster: FakeCluster
) -> None:
    entry = submitted("alpha/base")
    assert len(submitted("gamma/tuned").jobs) == 2
    (entry.folder / "cancelled.json").write_text('{"1_1": "2026-01-09T00:00:00Z"}')
    cluster.end("1_1")
    plan, _ = submit(request("gamma/tuned"), quiet)
    assert [spec.seed for spec in plan.runs] == [2, 2]


def test_a_cancelled_run_that_still_saves_is_queued_again_behind_itself(
    chain: World, cluster: FakeCluster
) -> None:
    entry = submitted("alpha/base")
    tasks = json.loads((cluster.folder / "squeue.json").read_text())["tasks"]
    cluster.queue(*({**task, "State": "COMPLETING"} for task in tasks))
    assert submit(request("alpha/base"), quiet)[1] is None, "both may be on their way back into the queue"

    (entry.folder / "cancelled.json").write_text('{"1_1": "2026-01-09T00:00:00Z"}')
    lines: list[str] = []
    plan, again = submit(request("gamma/tuned", tables=True), lines.append)
    assert again is not None
    first, second = (task.run_id for task in entry.jobs[0].tasks)
    assert {spec.run_id for spec in plan.runs} >= {second}
    assert first not in {spec.run_id for spec in plan.runs}
    assert f"waits: {second} for the cancelled task 1_1 to save itself" in lines
    scripts = [(again.folder / job.script).read_text() for job in again.jobs]
    assert [line for text in scripts for line in text.splitlines() if "--dependency" in line] == [
        "#SBATCH --dependency=afterok:1_0",
        "#SBATCH --dependency=afterany:1_1",
        "#SBATCH --dependency=aftercorr:3",
        "#SBATCH --dependency=afterany:2:3:4",
    ]
    assert submit(request("gamma/tuned"), quiet)[1] is None
    assert submit(request("alpha/base"), quiet)[1] is None, "the newer task counts"


def test_a_refusal_leaves_nothing(world: World, cluster: FakeCluster) -> None:
    cluster.refuses(1, complaint="Batch job submission failed: Invalid account specified")
    with pytest.raises(UserError, match=r"sbatch refuses: .*Invalid account specified.* profile site"):
        submit(request("alpha/base"), quiet)
    assert read_submissions() == []
    assert {p.name for p in (world.root / "runs" / "slurm").iterdir()} == {".lock", "snapshots"}
    cluster.refuses()
    assert len(submitted("alpha/base").jobs[0].tasks) == 2


def test_a_refusal_in_the_middle_keeps_what_was_taken(chain: World, cluster: FakeCluster) -> None:
    cluster.refuses(2, complaint="Batch job submission failed: Invalid qos specification")
    with pytest.raises(UserError, match=r"qos.*\(1"):
        submit(request("gamma/tuned", tables=True), quiet)
    assert [(j.name, j.job_id) for j in read_submissions()[0].jobs] == [("gamma.tuned.paper.1", 1)]
    cluster.refuses()
    entry = submitted("gamma/tuned")
    for job, task in zip(entry.jobs, ("1_0", "1_1"), strict=True):
        assert f"afterok:{task}\n" in (entry.folder / job.script).read_text()


def test_an_answer_that_was_lost_is_found_in_the_queue(world: World, cluster: FakeCluster) -> None:
    cluster.refuses(silent=True)
    with pytest.raises(ReproError, match="the same command checks"):
        submit(request("alpha/base"), quiet)
    assert submit(request("alpha/base"), quiet)[1] is None
    assert [job.job_id for entry in read_submissions() for job in entry.jobs] == [1]


def test_an_answer_that_never_came(world: World, cluster: FakeCluster) -> None:
    """The job may yet appear: its folder stays, the entry says nothing, and the next submit looks."""
    cluster.refuses(1, complaint="Unable to contact slurm controller (connect failure)")
    with pytest.raises(ReproError, match="the same command checks"):
        submit(request("alpha/base"), quiet)
    (entry,) = read_submissions()
    assert [j.job_id for j in entry.jobs] == [None]
    assert (entry.folder / "code").is_dir()
    cluster.refuses()
    assert submitted("alpha/base").jobs[0].job_id == 1


def test_what_stops_the_snapshot_leaves_nothing(
    world: World, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path, files: object) -> None:
        (folder / "code").mkdir()
        raise ReproError("no space left")

    monkeypatch.setattr(module, "link_snapshot", full)
    with pytest.raises(ReproError, match="no space"):
        submit(request("alpha/base"), quiet)
    assert {p.name for p in (world.root / "runs" / "slurm").iterdir()} == {".lock", "snapshots"}
    assert cluster.calls("sbatch") == []


def test_arrays_are_as_large_as_the_site_allows(world: World, cluster: FakeCluster) -> None:
    cluster.answers("scontrol", out="MaxArraySize = 3\n")
    entry = submitted("alpha/base", seeds=named(*range(1, 6)))
    assert [[task.seed for task in job.tasks] for job in entry.jobs] == [[1, 2], [3, 4], [5]]
    assert cluster.tasks() == ["1_0", "1_1", "2_0", "2_1", "3_0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--time=8-00:00:00"],
            "time: '8-00:00:00' .*1-00:00:00 in partition gpu, 7-00:00:00 in partition long",
        ),
        (["--time=2-00:00:00"], None),  # one of the two allows it
        (["--time=2-00:00:00", "--partition=gpu"], "time: '2-00:00:00'"),
        (["--partition=other"], None),  # sbatch itself knows
        (["--partition=narrow"], r"nodes: '2' \(1 in partition narrow"),
        # Each limit is met by a partition, and none meets both.
        (
            ["--time=2-00:00:00", "--partition=gpu,narrow"],
            r"time: '2-00:00:00' \(1-00:00:00 in partition gpu\); nodes: '2' \(1 in partition narrow\)",
        ),
    ],
)
def test_what_no_partition_starts_is_not_queued(
    world: World, cluster: FakeCluster, options: list[str], message: str | None
) -> None:
    for call in (lambda r: submit(r, quiet), dry_run):
        if message is None:
            call(request("alpha/base", sbatch=options))
        else:
            with pytest.raises(UserError, match=message):
                call(request("alpha/base", sbatch=options))
    assert (cluster.tasks() == []) == (message is not None)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("partition: gpu\nnodes: 9\n", "nodes: '9' .*8 in partition gpu"),
        ("partition: gpu\nnodes: 8\ncpus_per_task: 65\n", "times nodes: '520' .*512 in partition gpu"),
        ("partition: long\ncpus_per_task: 65\n", "tasks_per_node: '65' .*64 in partition long"),
        ("partition: gpu,long\ncpus_per_task: 65\n", None),
    ],
)
def test_what_no_partition_is_large_enough_for_is_not_queued(
    world: World, cluster: FakeCluster, profile: str, message: str | None
) -> None:
    world.write("clusters/other.yaml", f'time: "01:00:00"\ngpus_per_node: 0\n{profile}')
    with pytest.raises(UserError, match=message) if message else nullcontext():
        dry_run(request("alpha/base", cluster="other"))


def test_the_partition_of_the_shell_is_that_of_a_profile_without_one(
    world: World, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("clusters/other.yaml", 'time: "2-00:00:00"\ngpus_per_node: 0\n')
    monkeypatch.setenv("SBATCH_PARTITION", "long")
    dry_run(request("alpha/base", cluster="other"))
    monkeypatch.setenv("SBATCH_PARTITION", "gpu")
    with pytest.raises(UserError, match=r"time: '2-00:00:00' .*in partition gpu"):
        dry_run(request("alpha/base", cluster="other"))


def test_a_dry_run_asks_slurm_about_jobs_that_wait_for_none(chain: World, cluster: FakeCluster) -> None:
    dry_run(request("gamma/tuned", tables=True))
    assert cluster.calls("sbatch") == [["sbatch", "--test-only"]]
    cluster.refuses(1, complaint="Requested node configuration is not available")
    with pytest.raises(UserError, match="sbatch refuses: Requested node configuration"):
        dry_run(request("alpha/base"))


def test_what_cannot_begin_is_not_queued(world: World, cluster: FakeCluster) -> None:
    def check(plan: Plan) -> None:
        raise UserError(f"no store of {plan.runs[0].recipe.experiment}")

    for call in (
        lambda: submit(request("alpha/base"), quiet, check),
        lambda: dry_run(request("alpha/base"), check),
    ):
        with pytest.raises(UserError, match="no store of alpha/base"):
            call()
    assert cluster.tasks() == []
    assert read_submissions() == []


def test_checkpoints_of_other_code_are_not_resumed_unless_accepted(
    world: World, cluster: FakeCluster
) -> None:
    (run,) = resolve_targets(["alpha/base"], "paper", named(1))
    folder = run.recipe.run_dir(run.seed)
    log, config = EventLog(folder), {"commit": "c" * 40, "code_sha256": "0" * 64}
    log.begin(b"", 0, {"config": config})
    submitted("alpha/base", seeds=named(2))
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "step-00000010.ckpt").touch()
    refusal = r"of other code: alpha/base/paper/s1-\w+ \(at commit cccccccc\)"
    with pytest.raises(UserError, match=refusal):
        submit(request("alpha/base", seeds=named(1)), quiet)
    entry = submitted("alpha/base", seeds=named(1), accept_changes=True)
    assert "--seed 1 --accept-changes" in (entry.folder / entry.jobs[0].script).read_text()
    log.begin(b"", 10, {"config": {**config, "code_sha256": code_hash(PROJECT)}})
    cluster.end(*cluster.tasks())
    with pytest.raises(UserError, match=refusal):  # that attempt wrote no checkpoint
        submit(request("alpha/base", seeds=named(1)), quiet)
    (folder / "checkpoints" / "step-00000020.ckpt").touch()
    assert submitted("alpha/base", seeds=named(1))


def test_checkpoints_of_another_plugin_are_not_resumed(world: World, cluster: FakeCluster) -> None:
    (run,) = resolve_targets(["alpha/base"], "paper", named(1))
    folder = run.recipe.run_dir(run.seed)
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "step-00000010.ckpt").touch()
    world.write("repro.yaml", "plugins: [mymix]")
    world.write("mymix.py", "WIDTH = 1\n")
    versions = {"python": "3", "plugin mymix": f"sha256:{hashes()['mymix']}"}
    config = {"commit": "c" * 40, "code_sha256": code_hash(PROJECT), "versions": versions}
    EventLog(folder).begin(b"", 0, {"config": config})
    dry_run(request("alpha/base", seeds=named(1)))
    world.write("mymix.py", "WIDTH = 2\n")
    with pytest.raises(UserError, match=r"of other code: alpha/base/paper/s1-\w+ "):
        dry_run(request("alpha/base", seeds=named(1)))


def test_a_run_that_another_process_runs_is_not_queued(world: World, cluster: FakeCluster) -> None:
    (run,) = resolve_targets(["alpha/base"], "paper", named(1))
    folder = run.recipe.run_dir(run.seed)
    folder.mkdir(parents=True)
    with open(folder / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=r"alpha/base/paper/s1-\w+: being run by another process"):
            submitted("alpha/base")
        assert submitted("alpha/base", seeds=named(2))
    assert submitted("alpha/base", seeds=named(1))


def test_a_group_shares_a_campaign(world: World, cluster: FakeCluster) -> None:
    """Where the runs' folder belongs to a group, all users' jobs count and the ledger is theirs."""
    (world.root / "runs").mkdir()
    submitted("alpha/base", seeds=named(1))
    assert "--me" in cluster.calls("squeue")[-1]
    (world.root / "runs").chmod(0o2770)
    entry = submitted("alpha/base", seeds=named(2))
    assert "--me" not in cluster.calls("squeue")[-1]
    assert stat.S_IMODE(entry.folder.stat().st_mode) == 0o2770
    assert stat.S_IMODE((entry.folder / entry.jobs[0].script).stat().st_mode) == 0o640


def test_a_dry_run_writes_nothing(world: World, cluster: FakeCluster) -> None:
    before = {*world.root.rglob("*")}
    plan, _ = dry_run(request("alpha", tables=True))
    assert len(plan.jobs) == 2
    assert {*world.root.rglob("*")} - before == {cluster.folder / "calls.jsonl"}
    assert {call[0] for call in cluster.calls()} == {"scontrol", "sbatch"}, (
        "no queue to ask about without a ledger"
    )


def test_a_dry_run_needs_no_slurm(
    world: World, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    submitted("alpha/base")
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    plan, summary = dry_run(request("alpha/base"))
    assert len(plan.runs) == 2
    assert summary[-1].startswith("what is queued is not known here: squeue is not on PATH")


def test_without_slurm_nothing_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(UserError, match=r"PATH.*--dry-run"):
        submit(request("alpha/base"), quiet)
    assert not (world.root / "runs").exists()


def test_a_wrong_cluster_is_reported_before_the_queue_is_asked(world: World, cluster: FakeCluster) -> None:
    with pytest.raises(UserError, match="'nope'"):
        submit(request("alpha/base", cluster="nope"), quiet)
    assert cluster.calls("squeue") == []
    assert not (world.root / "runs").exists()


def test_an_unwritable_folder(world: World, cluster: FakeCluster) -> None:
    world.write("runs", "a file where the folder should be")
    with pytest.raises(UserError, match="make the folder writable"):
        submit(request("alpha/base"), quiet)
    assert cluster.calls("sbatch") == []


def test_first_submissions_at_the_same_moment_wait_for_each_other(tmp_path: Path) -> None:
    for i in range(30):
        at_once = threading.Barrier(4)

        def first(_: int, at_once: threading.Barrier = at_once, folder: Path = tmp_path / str(i)) -> None:
            at_once.wait()
            with locked(folder):
                pass

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(first, range(4)))
