"""Short runs on a local two-node Slurm cluster under random faults, compared with undisturbed runs.

    python -m benchmarks.soak [--minutes 60] [--runs 40] [--steps 4000] [--seed 1] [--jobs 16] [--pause 9.5]

Five tiny recipes (translation, two language models with memory, conversations, a classifier) are submitted with
``repro submit`` from a clone of this checkout: the first on a rank of each node, the others on one rank. Two users
who share the folders submit the same runs at the same moment. The runs are mirrored to a W&B server on this machine.
Until the time is up, a fault of a random kind strikes every few seconds, and everything is submitted again every
minute, as a user would; where fewer than half of the runs are left to do, each recipe gets another seed. Then the
faults end, what is left may finish, and ``repro sync`` sends what the server lacks. Afterwards the same runs are made
without faults, on the same cluster.

Every model must have the same SHA-256, no run may have two records, and nothing may be queued twice. A record names
the commits of the submissions that trained it. The server has each run once, each of its rows once, and the record's
metrics. Otherwise the benchmark fails. It needs root, as ``tests/slurm`` does.

Prints faults by kind, runs, attempts and hashes, and one line of JSON.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from repro.data.prepare import prepare
from repro.events import EVENTS_FILE, METRICS, Event, read, status
from repro.mirror.client import STEP, rows_of
from repro.record import RunRecord
from tests.slurm.control import Cluster, own_folder
from tests.slurm.project import Project, make_project
from tests.wandb_api import KEY
from tests.wandb_server import WandbServer
from tests.workshop import PROJECT, TINY, Workshop

USERS = ("ann", "bob")
CHANGED = "checkpoints of other code"  # why a submission is refused
RESUBMIT_S = 60.0
DISK_BYTES = 400_000_000  # of the small disk that holds the run folders


@dataclass
class Soak:
    """A project on a cluster, and what was done to it.

    Attributes:
        project: submits to the cluster.
        disk: small, holds the run folders.
        code: a clone of this checkout.
        server: of W&B.
        wandb: mode of its client in the runs.
    """

    project: Project
    disk: Path
    code: Path
    server: WandbServer
    wandb: str
    rng: random.Random
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def cluster(self) -> Cluster:
        return self.project.cluster

    def running(self) -> list[str]:
        """Jobs that run, ``12_3``."""
        return self.cluster.run("squeue", "-h", "-t", "R", "-o", "%F_%K", check=False).stdout.split()

    def env(self, user: str) -> dict[str, str]:
        """Variables of a user who submits from the clone."""
        home, code = str(self.project.root), str(self.code)
        return {
            "USER": user, "LOGNAME": user, "HOME": f"{home}/{user}", "TMPDIR": home, "PYTHONPATH": code,
            "WANDB_MODE": self.wandb, "WANDB_BASE_URL": self.server.url, "WANDB_API_KEY": KEY,
        }  # fmt: skip

    def submit(self, experiments: list[str], seeds: str) -> None:
        """All users queue, at the same moment, what has no record and is not queued; a run is on the queue once."""
        try:
            self.cluster.run("scontrol", "update", "nodename=node[1-2]", "state=resume", check=False)
            for cluster, names in (("pair", experiments[:1]), ("local", experiments[1:])):
                words = ("submit", *names, "--cluster", cluster, "--scale", "cpu", "--seeds", seeds)
                with ThreadPoolExecutor() as pool:
                    list(pool.map(self._submit, USERS, [words] * len(USERS)))
            jobs = self.cluster.run("squeue", "-h", "-r", "-o", "%F_%K", check=False).stdout.split()
        except subprocess.TimeoutExpired:
            self.faults["submit without an answer"] += 1
            return
        known = submitted(self.project)
        runs = Counter(known[job][0] for job in jobs if job in known)
        twice = [run for run, count in runs.items() if count > 1]
        assert not twice, f"queued twice: {twice}"

    def _submit(self, user: str, words: tuple[str, ...]) -> None:
        for more in ((), ("--accept-changes",)):
            said = self.project.repro(*words, *more, check=False, env=self.env(user), timeout=300)
            if CHANGED not in said.err:
                break
            self.faults["submit refused for a commit"] += 1
        if said.code:  # the controller is away, or the disk full
            self.faults["submit refused"] += 1
            print(user, said.err.strip().rpartition("\n")[2], file=sys.stderr, flush=True)

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

    def fault_hang(self) -> bool:
        """Stops a process. Half of them go on later; one that does not is ended by the other rank's watchdog, by the
        time limit where it is the only rank, or by another fault."""
        pids = ranks(self.project.workshop)
        if pids:
            pid, goes_on = self.rng.choice(pids), self.rng.random() < 0.5
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                if goes_on:
                    time.sleep(self.rng.uniform(5, 40))
                    os.kill(pid, signal.SIGCONT)
        return bool(pids)

    def fault_commit(self) -> None:
        """A change of the code that changes no result."""
        with (self.code / "repro" / "seeds.py").open("a") as file:
            file.write(f"# change {self.faults['commit'] + 1}\n")
        git = ("git", "-c", "user.name=soak", "-c", "user.email=soak@example.org")
        subprocess.run([*git, "commit", "-qam", "A comment"], cwd=self.code, check=True)

    def fault_server_away(self) -> None:
        self.server.fail(self.rng.choice((401, 429, 503)))
        time.sleep(self.rng.uniform(5, 30))
        self.server.recover()

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


def submitted(project: Project) -> dict[str, tuple[str, str]]:
    """The run and the commit of each task, ``12_3``, that Slurm took."""
    found = {}
    for path in project.workshop.runs.glob("slurm/*/submission.json"):
        entry = json.loads(path.read_text())
        for job in entry["jobs"]:
            for task in job["tasks"]:
                found[f"{job['job_id']}_{task['index']}"] = (task["run_id"], entry["commit"])
    return found


def finished(project: Project) -> list[tuple[RunRecord, list[Event]]]:
    """Each record, with the events of its run."""
    records = [RunRecord.from_json(path.read_text(), path.name) for path in project.workshop.records()]
    return [(one, read(project.workshop.runs / one.run_id / EVENTS_FILE)) for one in records]


def check_commits(project: Project) -> int:
    """Checks that each record names the commits that trained it; returns how many name several."""
    jobs, mixed = submitted(project), 0
    for record, events in finished(project):
        starts = [event["job"] for event in events if event.get("state") == "starting"]
        for job, attempt in zip(starts, record.attempts, strict=False):
            assert attempt["commit"] == jobs.get(job, ("", attempt["commit"]))[1], (record.run_id, job)
        trained = {one["commit"] for one in record.attempts if one["last"] > one["first"]} | {record.commit}
        assert record.mixed == (len(trained) > 1), (record.run_id, trained)
        mixed += record.mixed
    return mixed


def check_mirror(soak: Soak) -> int:
    """Sends what the server lacks, and checks that it has each run and row once; returns how many rows."""
    server = soak.server
    while "skipped" in soak.project.repro("sync", env=soak.env(USERS[0]), timeout=3600).out:
        time.sleep(10)  # for the mirrors that are still at work
    ids = {sent["displayName"]: run for run, sent in server.runs.items()}
    assert len(ids) == len(server.runs), "a run is on the server twice"
    for record, events in finished(soak.project):
        run, rows = ids[record.run_id], rows_of(events)
        sent = [(row[STEP], *sorted(row)) for row in server.rows[run] if STEP in row]
        assert len(set(sent)) == len(sent), f"rows of {record.run_id} were sent twice"
        assert len(server.rows[run]) == len(rows), (record.run_id, len(server.rows[run]), len(rows))
        pairs = zip(server.rows[run], rows, strict=True)
        assert all(row[STEP] == event["step"] for row, event in pairs if event["kind"] in METRICS), (
            record.run_id
        )
        metrics = {one.name: one.value for one in reversed(record.metrics)}
        assert metrics.items() <= server.summaries[run].items(), record.run_id
    return sum(map(len, server.rows.values()))


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


def strike_for(soak: Soak, experiments: list[str], args: argparse.Namespace) -> int:
    """Faults until the time is up, with work to do all the while; returns the number of seeds that were submitted."""
    seeds = args.runs // 5
    least = len(experiments) * seeds // 2
    end, next_submit = time.monotonic() + args.minutes * 60, 0.0
    while time.monotonic() < end:
        if time.monotonic() > next_submit:
            if len(experiments) * seeds - len(hashes(soak.project)) < least:
                seeds += 1
            soak.submit(experiments, f"1-{seeds}")
            next_submit = time.monotonic() + RESUBMIT_S
        time.sleep(soak.rng.uniform(0.4, 1.6) * args.pause)
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
    parser.add_argument("--jobs", type=int, default=16, help="at most at once, an even number")
    parser.add_argument("--pause", type=float, default=9.5, help="seconds between two faults, on average")
    args = parser.parse_args()
    os.umask(0o002)  # the folders are a group's
    with (
        own_folder() as folder,
        tempfile.TemporaryDirectory(prefix="repro-soak-", ignore_cleanup_errors=True) as name,
    ):
        root, cluster = Path(name), Cluster(folder)
        disk = root / "disk"
        disk.mkdir()  # mounted before the nodes start: each has its own view of mounts
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)], check=True)
        try:
            if reason := cluster.up(CPUS=str(args.jobs // 2)):
                sys.exit(f"no local Slurm cluster: {reason}")
            os.environ["REPRO_DATA"] = str(root / "data")
            prepare("numbers-en-de", vocab_size=300, size=300, report=lambda line: None)
            clone = ("git", "-c", "advice.detachedHead=false", "clone", "-q")
            subprocess.run([*clone, str(PROJECT), str(root / "code")], check=True)
            print(json.dumps(soaked(root, cluster, disk, args)))
            cluster.clear()
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=False)


def soaked(root: Path, cluster: Cluster, disk: Path, args: argparse.Namespace) -> dict[str, object]:
    """The soak, then its runs undisturbed; prints and returns what came out."""
    found, seeds = {}, 0
    (subnet,) = re.findall(r"SUBNET=(\S+)", (cluster.folder / "etc" / "settings").read_text())
    server = WandbServer(f"{subnet}.1")  # the nodes have a network of their own
    outcome: dict[str, object] = {}
    for name in ("soaked", "calm"):
        project = make_project(root / name, root / "data", cluster)
        for profile, nodes in (("local", 1), ("pair", 2)):
            project.profile(
                profile, nodes=nodes, tasks_per_node=1, time="00:06:00", warning_s=60, stall_s=90,
                max_requeues=1000, max_parallel=args.runs,
            )  # fmt: skip
        (disk / name).mkdir()
        (disk / name).chmod(0o2770)
        project.workshop.runs.symlink_to(disk / name)
        wandb = "online" if name == "soaked" else "disabled"
        soak = Soak(project, disk, root / "code", server, wandb, random.Random(args.seed))
        experiments = recipes(project.workshop, args.steps)
        began = time.monotonic()
        if name == "soaked":
            seeds = strike_for(soak, experiments, args)
            outcome = {"minutes": args.minutes, "faults": dict(sorted(soak.faults.items()))}
        found[name] = until_done(soak, experiments, seeds)
        if name == "soaked":
            outcome |= {"mixed": check_commits(project), "rows on the server": check_mirror(soak)}
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
