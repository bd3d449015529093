"""The real Slurm cluster of these tests, as seen from its login node: this machine."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("cluster")
PLACE = Path("/tmp")  # not $TMPDIR: the paths of Slurm's sockets must be short
PREFIX = "repro-slurm-"
CANNOT = 3  # exit code of `cluster up` where this machine cannot have one
ENDED_WELL = {"COMPLETED"}
ENDED_BADLY = {"BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}
FINAL = ENDED_WELL | ENDED_BADLY


def outside_of_jobs(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what Slurm sets: the tests may themselves run in a job."""
    return {k: v for k, v in environment.items() if not k.startswith(("SLURM", "SBATCH", "SRUN", "PMI"))}


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        folder: configuration, logs and sockets.
        env: variables that make Slurm's commands talk to it.
    """

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "etc" / "slurm.conf")}

    def verb(self, verb: str, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Calls the script ``cluster``; in a session of its own, so that Ctrl-C does not stop it halfway."""
        return subprocess.run(
            [str(SCRIPT), verb, str(self.folder), *words],
            env=outside_of_jobs(os.environ) | settings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )

    def up(self, **settings: str) -> str:
        """Starts it; returns why this machine cannot, or an empty string."""
        done = self.verb("up", **settings)
        if done.returncode == CANNOT:
            return done.stderr.strip().removeprefix("cluster: ")
        assert done.returncode == 0, f"the cluster did not come up:\n{done.stderr}{self.daemon_log()}"
        return ""

    def run(
        self,
        *words: str,
        check: bool = True,
        timeout: float = 60,
        stdin: str = "",
        env: Mapping[str, str] = {},
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the login node.

        Args:
            words: the command.
            check: whether exit codes other than 0 fail the test.
            timeout: seconds until the command is killed and the test fails.
            stdin: what it reads.
            env: variables beside those of the tests and of the cluster.
            cwd: where; ``/`` by default, so that no job writes into the checkout.
        """
        done = subprocess.run(
            words,
            env=outside_of_jobs(os.environ) | self.env | dict(env),
            cwd=cwd or "/",
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        output = f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0 or not check, output
        return done

    def sbatch(self, script: str, *options: str, env: Mapping[str, str] = {}) -> str:
        """Submits a script; returns the job's number."""
        return self.run("sbatch", "--parsable", *options, stdin=script, env=env).stdout.strip()

    def crash(self, node: str) -> None:
        """Takes a node's power away. Slurm notices after 8 to 30 s."""
        done = self.verb("crash", node)
        assert done.returncode == 0, done.stderr

    def boot(self, node: str) -> None:
        """Starts a crashed node, once Slurm has noticed the crash, and waits until it takes jobs."""
        done = self.verb("boot", node)
        assert done.returncode == 0, f"{done.stderr}{self.daemon_log()}"

    def job(self, job: str) -> dict[str, str]:
        """The fields of ``scontrol show job``: JobState, Reason, Restarts, StdOut, ... (of one task: ``12_0``).

        Ended jobs are there for ten minutes. Values that hold spaces are cut at the first.
        """
        displayed = self.run("scontrol", "show", "job", "-o", job).stdout.strip()
        assert len(displayed.splitlines()) == 1, f"{job} is not one task\n{displayed}"
        return dict(re.findall(r"(\S+?)=(\S*)", displayed))

    def state(self, job: str) -> str:
        """PENDING, RUNNING, COMPLETED, ..."""
        return self.job(job)["JobState"]

    def restarts(self, job: str) -> int:
        """The number of requeues."""
        return int(self.job(job)["Restarts"])

    def log(self, job: str) -> str:
        """Returns the output so far of a job or of a task of an array."""
        path = Path(self.job(job)["StdOut"])
        return path.read_text(errors="replace") if path.is_file() else ""

    def wait(self, job: str, states: str | Collection[str], timeout: float = 60) -> str:
        """Waits until a job is in one of the states; returns which.

        Fails the test, with the ends of the logs, after ``timeout`` seconds or when the job has ended otherwise.
        """
        expected = {states} if isinstance(states, str) else set(states)

        def arrived() -> bool:
            state = self.state(job)
            assert state in expected or state not in FINAL, self._report(job, f"is {state}, not {expected}")
            return state in expected

        self.until(arrived, f"{job} to be {' or '.join(sorted(expected))}", timeout, job)
        return self.state(job)

    def wait_log(self, job: str, text: str, timeout: float = 60) -> str:
        """Waits until the text is in a job's log; returns the log."""
        self.until(lambda: text in self.log(job), f"{text!r} in the log of {job}", timeout, job)
        return self.log(job)

    def until(self, holds: Callable[[], bool], what: str, timeout: float = 60, job: str = "") -> None:
        """Polls until something holds, or fails the test after ``timeout`` seconds."""
        end = time.monotonic() + timeout
        while not holds():
            output = f"no {what} within {timeout:g} s"
            assert time.monotonic() < end, self._report(job, output) if job else output
            time.sleep(0.2)

    def sacct(self, job: str, fields: str = "jobid,state") -> list[list[str]]:
        """One row for each attempt of a job, oldest first, as ``sacct`` has it: it lags by seconds."""
        result = self.run("sacct", "-D", "-X", "-n", "-P", "-j", job, "-o", fields).stdout
        return [line.split("|") for line in result.splitlines()]

    def clear(self) -> None:
        """Cancels every job and waits until the nodes are free."""
        self.run("scancel", "--user=root")
        self.until(lambda: not self.run("squeue", "-h").stdout.strip(), "empty queue", 60)

    def daemon_log(self, lines: int = 15) -> str:
        """The end of slurmctld's log."""
        path = self.folder / "log" / "slurmctld.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.is_file() else ""

    def _report(self, job: str, said: str) -> str:
        end = "\n".join(self.log(job).splitlines()[-40:])
        return f"{job} {said}\n{self.job(job)}\n== its log\n{end}\n== slurmctld\n{self.daemon_log()}"


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder for a cluster, marked as in use by a lock that ends with this process. Removes abandoned ones."""
    with open(PLACE / f"{PREFIX}{os.getuid()}.lock", "w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        remove_abandoned()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
        mine = open(folder / "lock", "w")  # noqa: SIM115 - open as long as the folder is in use
        fcntl.flock(mine, fcntl.LOCK_EX)
    with mine:
        try:
            yield folder
        finally:
            remove(folder)


def remove_abandoned() -> list[Path]:
    """Ends the clusters of sessions that were killed: those whose lock nobody holds."""
    removed = []
    for lock in PLACE.glob(f"{PREFIX}*/lock"):
        try:
            file = open(lock)  # noqa: SIM115 - closed below
        except OSError:  # gone by now, or another user's
            continue
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            if os.fstat(file.fileno()).st_uid == os.getuid():
                remove(lock.parent)
                removed.append(lock.parent)
    return removed


def remove(folder: Path) -> None:
    """Stops the cluster in a folder, whatever is left of it, and deletes the folder."""
    if (folder / "run").is_dir():
        Cluster(folder).verb("wipe")
    shutil.rmtree(folder, ignore_errors=True)
