"""The cluster itself: what the other tests of this folder rest on behaves as Slurm does."""

import os
from collections import Counter
from pathlib import Path

from tests.slurm.control import CANNOT, Cluster, own_folder, remove_abandoned

WAITS = """\
#!/bin/bash
echo "attempt $SLURM_RESTART_COUNT on $(hostname)"
srun sleep 300
"""
SIGNALS = """\
#!/bin/bash
srun bash -c 'trap "echo rank \\$SLURM_PROCID got USR1; exit 3" USR1; echo ready; for i in {1..600}; do sleep 0.1; done'
echo "srun ended with $?"
"""
SAVES = """\
#!/bin/bash
srun --ntasks=1 --nodes=1 bash -c 'trap "exit 75" TERM; echo ready; for i in {1..600}; do sleep 0.1; done'
rc=$?
echo "srun ended with $rc"
[ $rc != 75 ] || scontrol requeue "$SLURM_JOB_ID"
"""


def log_in(folder: Path) -> tuple[str, ...]:
    return ("--open-mode=append", f"--output={folder}/%j.log", "--requeue")


def test_the_nodes_are_two_machines_that_see_each_other(cluster: Cluster) -> None:
    script = (
        "touch /dev/shm/$SLURM_PROCID; echo $(hostname) $(hostname -I) $(getent hosts node1 node2 | wc -l)"
    )
    script += " $(ls /dev/shm)"

    output = cluster.run("srun", "-N2", "--ntasks-per-node=1", "bash", "-c", script).stdout.splitlines()

    hosts, addresses, known, local = zip(*(line.split() for line in output), strict=True)
    assert sorted(hosts) == ["node1", "node2"]
    assert len(set(addresses)) == 2
    assert known == ("2", "2")
    assert sorted(local) == ["0", "1"]  # /dev/shm is each node's own


def test_each_rank_is_told_of_the_gpus_it_was_granted(cluster: Cluster) -> None:
    displayed = cluster.run(
        "srun", "-N2", "--ntasks-per-node=2", "--gpus-per-node=2", "printenv", "CUDA_VISIBLE_DEVICES"
    )

    assert displayed.stdout.split() == ["0,1"] * 4


def test_an_array_keeps_to_its_throttle(cluster: Cluster, tmp_path: Path) -> None:
    script = f"#!/bin/bash\necho start >> {tmp_path}/seen\nsleep 1\necho end >> {tmp_path}/seen\n"
    job = cluster.sbatch(script, "--array=0-3%2", f"--output={tmp_path}/%a.log")

    for i in range(4):
        cluster.wait(f"{job}_{i}", "COMPLETED")

    seen = (tmp_path / "seen").read_text().split()
    at_work = [Counter(seen[:n])["start"] - Counter(seen[:n])["end"] for n in range(len(seen) + 1)]
    assert max(at_work) == 2, seen


def test_a_requeued_job_starts_again_and_appends_to_its_log(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.sbatch(WAITS, *log_in(tmp_path))
    cluster.wait_log(job, "attempt")

    cluster.run("scontrol", "requeue", job)

    # srun waits a minute for a step that was about to begin
    log = cluster.wait_log(job, "attempt 1", 180)
    assert log.index("attempt  on") < log.index("attempt 1 on")
    assert cluster.restarts(job) == 1


def test_usr1_reaches_every_task_and_not_the_batch_shell(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.sbatch(SIGNALS, "-N2", "--ntasks-per-node=2", *log_in(tmp_path))
    cluster.until(lambda: cluster.log(job).count("ready") == 4, "four tasks that are ready", job=job)

    cluster.run("scancel", "--signal=USR1", job)

    cluster.wait(job, "COMPLETED")
    log = cluster.log(job)
    assert all(f"rank {i} got USR1" in log for i in range(4)), log
    assert "srun ended with 3" in log


def test_a_preempted_job_has_the_grace_time_to_save_itself_and_requeue(
    cluster: Cluster, tmp_path: Path
) -> None:
    low = cluster.sbatch(SAVES, "-N2", "--exclusive", "--partition=preemptible", *log_in(tmp_path))
    cluster.wait_log(low, "ready")

    high = cluster.sbatch("#!/bin/bash\nsleep 1\n", "-N2", "--exclusive", *log_in(tmp_path))

    cluster.wait(high, "COMPLETED")
    assert "srun ended with 75" in cluster.log(low)
    assert cluster.restarts(low) == 1


def test_a_node_that_crashes_gives_its_job_back_and_returns(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.sbatch(WAITS, "-N2", *log_in(tmp_path))
    cluster.wait_log(job, "attempt")

    cluster.crash("node2")
    cluster.boot("node2")

    cluster.wait_log(job, "attempt 1")
    cluster.until(lambda: ["NODE_FAIL"] in cluster.sacct(job, "state"), f"NODE_FAIL of {job} in sacct")


def test_sacct_tells_every_attempt_and_the_comment(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.sbatch("#!/bin/bash\nexit 7\n", "--comment=a comment", *log_in(tmp_path))
    cluster.wait(job, "FAILED")

    cluster.until(lambda: cluster.sacct(job, "state")[-1:] == [["FAILED"]], f"the end of {job} in sacct")

    assert cluster.sacct(job, "jobid,exitcode,comment") == [[job, "7:0", "a comment"]]


def test_an_abandoned_cluster_is_removed_and_one_in_use_is_not(cluster: Cluster) -> None:
    with own_folder() as folder:
        second = Cluster(folder)
        assert second.up(NODES="1", ACCOUNTING="0") == ""
        assert second.run("srun", "hostname").stdout == cluster.run("srun", "hostname").stdout == "node1\n"
        daemons = [int(p.read_text().split()[0]) for p in (folder / "run").glob("*.pid")]
        assert len(daemons) == 3
        assert remove_abandoned() == []

        (folder / "lock").unlink()
        (folder / "lock").touch()

        assert remove_abandoned() == [folder]
        assert not folder.exists()
        cluster.until(lambda: not any(os.path.exists(f"/proc/{p}") for p in daemons), "end of its daemons")
    assert cluster.run("scontrol", "ping").stdout.count("UP") == 1


def test_a_machine_that_cannot_says_why_in_one_line(cluster: Cluster, tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()  # a PATH without Slurm
    for command in ("bash", "cksum", "cut", "dirname", "mkdir", "id", "xargs", "rm", "awk", "sleep"):
        (bare / command).symlink_to(f"/usr/bin/{command}")

    with own_folder() as folder:  # names of sockets must be short, shorter than those below tmp_path
        done = Cluster(folder).verb("up", PATH=str(bare))

    assert done.returncode == CANNOT
    assert "slurmctld" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "run tests/slurm/cluster install" in done.stderr
