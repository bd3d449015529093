"""Short runs on a local two-node Slurm cluster under random faults, compared with undisturbed runs.

    python -m benchmarks.soak [--minutes 60] [--runs 40] [--steps 4000] [--seed 1]

Five tiny recipes (translation, two language models with memory, conversations, a classifier) are submitted with
``repro submit``, on one rank of one node each. Until the time is up, a fault of a random kind strikes every few
seconds, and everything is submitted again every minute, as a user would; where fewer than half of the runs are left to
do, each recipe gets another seed. Then the faults end, and what is left may finish. Afterwards the same runs are made
without faults, on the same cluster. Every model must have the same SHA-256, no run may have two records, and nothing
may be queued twice, or the benchmark fails. It needs root, as ``tests/slurm`` does.

Prints faults by kind, runs, attempts and hashes, and one line of JSON.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from repro.data.prepare import prepare
from repro.events import EVENTS_FILE, status
from tests.slurm.control import Cluster, own_folder
from tests.slurm.project import Project, make_project
from tests.workshop import TINY, Workshop

PAUSE_S = (4.0, 15.0)  # between two faults
RESUBMIT_S = 60.0
DISK_BYTES = 400_000_000  # of the small disk that holds the run folders


@dataclass
class Soak:
    """A project on a cluster, and what was done to it."""

    project: Project
    disk: Path
    rng: random.Random
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def cluster(self) -> Cluster:
        return self.project.cluster

    def running(self) -> list[str]:
        """Jobs that run, ``12_3``."""
        return self.cluster.run("squeue", "-h", "-t", "R", "-o", "%A", check=False).stdout.split()

    def submit(self, experiments: list[str], seeds: str) -> None:
        """Queues what has no record and is not queued; a job is on the queue once."""
        try:
            self.cluster.run("scontrol", "update", "nodename=node[1-2]", "state=resume", check=False)
            for experiment in experiments:
                words = ("submit", experiment, "--cluster", "local", "--scale", "cpu", "--seeds", seeds)
                self.project.repro(*words, check=False)
            names = self.cluster.run("squeue", "-h", "-r", "-o", "%F_%K", check=False).stdout.split()
        except subprocess.TimeoutExpired:
            self.faults["submit without an answer"] += 1
            return
        twice = [name for name, count in Counter(names).items() if count > 1]
        assert not twice, f"queued twice: {twice}"

    def strike(self) -> None:
        """One fault of a random kind."""
        kind = self.rng.choice([one for one in dir(self) if one.startswith("fault_")])
        try:
            if getattr(self, kind)() is not False:
                self.faults[kind.removeprefix("fault_")] += 1
        except (subprocess.TimeoutExpired, AssertionError):  # the controller is away, or the machine too busy
            self.faults[f"{kind.removeprefix('fault_')} without an answer"] += 1

    def fault_requeue(self) -> bool:
        return self._of_a_job(lambda job: self.cluster.run("scontrol", "requeue", job, check=False))

    def fault_signal(self) -> bool:
        return self._of_a_job(
            lambda job: self.cluster.run("scancel", "--signal=USR1", "--full", job, check=False)
        )

    def fault_node_down(self) -> None:
        node = self.rng.choice(["node1", "node2"])
        self.cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=soak")
        time.sleep(self.rng.uniform(1, 10))
        self.cluster.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    def fault_kill_rank(self) -> bool:
        """Kills a rank wherever it is: starting, training, saving or testing."""
        pids = ranks(self.project.workshop)
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rng.choice(pids), signal.SIGKILL)
        return bool(pids)

    def fault_controller(self) -> None:
        done = self.cluster.verb("restart")
        assert done.returncode == 0, done.stderr

    def fault_disk_full(self) -> None:
        filler = self.disk / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 20))
            except OSError:
                pass
        time.sleep(self.rng.uniform(10, 60))
        filler.unlink()

    def fault_data_away(self) -> None:
        data = self.project.workshop.data
        away = data.with_name("data-away")
        data.rename(away)
        time.sleep(self.rng.uniform(2, 15))
        if data.exists():  # a run that started meanwhile made the generated store again
            data.rename(data.with_name(f"data-made-{time.monotonic_ns()}"))
        away.rename(data)

    def _of_a_job(self, act: Callable[[str], object]) -> bool:
        jobs = self.running()
        if jobs:
            act(self.rng.choice(jobs))
        return bool(jobs)


def recipes(workshop: Workshop, steps: int) -> list[str]:
    """Writes five recipes whose scale cpu has so many updates; returns their names."""
    names = [TINY, workshop.stream(), workshop.sticky(), workshop.talk(), workshop.bits()]
    change = {"trainer.max_steps": steps, "trainer.val_check_interval": 250, "checkpoints.every_steps": 50}
    for name in names:
        paper, recipe = name.split("/")
        more = {}
        if "WarmupCosine" in (workshop.configs / paper / f"{recipe}.yaml").read_text():
            more = {"model.schedule.steps": steps}
        workshop.recipe(json.dumps({"set": change | more}), recipe, "cpu", paper)
    return names


def ranks(workshop: Workshop) -> list[int]:
    """Processes that run a recipe of a project; the nodes are namespaces of this machine."""
    ours, found = f"REPRO_RUNS={workshop.runs}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"run" in words and ours in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def hashes(project: Project) -> dict[str, str]:
    """SHA-256 of each final model, by run id; a run with two records fails."""
    records = [json.loads(path.read_text()) for path in project.workshop.records()]
    found = {record["run_id"]: record["checkpoint_sha256"] for record in records}
    assert len(found) == len(records), "a run has two records"
    return found


def attempts(project: Project) -> int:
    """How often runs were started."""
    return sum(status(path.parent)["attempt"] for path in project.workshop.runs.rglob(EVENTS_FILE))


def until_done(soak: Soak, experiments: list[str], seeds: int, limit_s: float = 3600) -> dict[str, str]:
    """Submits what is missing of the first seeds until every run has a record; returns the models' hashes.

    Raises:
        TimeoutError: some are missing when the time is up.
    """
    runs = len(experiments) * seeds
    end, next_submit = time.monotonic() + limit_s, 0.0
    while len(found := hashes(soak.project)) < runs:
        if time.monotonic() > end:
            raise TimeoutError(f"{len(found)} of {runs} runs are done after {limit_s:g} s")
        if time.monotonic() > next_submit:
            soak.submit(experiments, f"1-{seeds}")
            next_submit = time.monotonic() + RESUBMIT_S
        time.sleep(2)
    return found


def strike_for(soak: Soak, experiments: list[str], minutes: float, seeds: int) -> int:
    """Faults until the time is up, with work to do all the while; returns the number of seeds that were submitted."""
    least = len(experiments) * seeds // 2
    end, next_submit = time.monotonic() + minutes * 60, 0.0
    while time.monotonic() < end:
        if time.monotonic() > next_submit:
            if len(experiments) * seeds - len(hashes(soak.project)) < least:
                seeds += 1
            soak.submit(experiments, f"1-{seeds}")
            next_submit = time.monotonic() + RESUBMIT_S
        time.sleep(soak.rng.uniform(*PAUSE_S))
        soak.strike()
    return seeds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=40, help="at the start")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with (
        own_folder() as folder,
        tempfile.TemporaryDirectory(prefix="repro-soak-", ignore_cleanup_errors=True) as name,
    ):
        root, cluster = Path(name), Cluster(folder)
        disk = root / "disk"
        disk.mkdir()  # mounted before the nodes start: each has its own view of mounts
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)], check=True)
        try:
            if reason := cluster.up():
                sys.exit(f"no local Slurm cluster: {reason}")
            os.environ["REPRO_DATA"] = str(root / "data")
            prepare("numbers-en-de", vocab_size=300, size=300, report=lambda line: None)
            print(json.dumps(soaked(root, cluster, disk, args)))
            cluster.clear()
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=False)


def soaked(root: Path, cluster: Cluster, disk: Path, args: argparse.Namespace) -> dict[str, object]:
    """The soak, then its runs undisturbed; prints and returns what came out."""
    found, seeds = {}, args.runs // 5
    outcome: dict[str, object] = {}
    for name in ("soaked", "calm"):
        project = make_project(root / name, root / "data", cluster)
        project.profile(nodes=1, tasks_per_node=1, time="00:30:00", max_requeues=1000, max_parallel=args.runs)
        (disk / name).mkdir()
        project.workshop.runs.symlink_to(disk / name)
        soak = Soak(project, disk, random.Random(args.seed))
        experiments = recipes(project.workshop, args.steps)
        began = time.monotonic()
        if name == "soaked":
            seeds = strike_for(soak, experiments, args.minutes, seeds)
            outcome = {"minutes": args.minutes, "faults": dict(sorted(soak.faults.items()))}
        found[name] = until_done(soak, experiments, seeds)
        outcome[name] = {"attempts": attempts(project), "seconds": round(time.monotonic() - began)}
        print(f"{name}: {len(found[name])} runs, {json.dumps(outcome)}", flush=True)
        shutil.rmtree(disk / name)
    different = [run for run, digest in found["calm"].items() if found["soaked"][run] != digest]
    runs = len(found["calm"])
    print(f"{runs - len(different)} of {runs} models have the hash of the undisturbed run")
    assert not different, different
    return {"runs": runs, "equal": runs - len(different), **outcome}


if __name__ == "__main__":
    main()
