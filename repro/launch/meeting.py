"""``repro doctor --cluster``: a job of seconds checks whether a run on several nodes of a cluster can work."""

import contextlib
import os
import secrets
import shutil
import sys
from pathlib import Path

from repro.errors import ReproError, UserError
from repro.files import write_atomic
from repro.launch.slurm.chain import PlannedJob
from repro.launch.slurm.limits import read_limits
from repro.launch.slurm.profile import load_profile
from repro.launch.slurm.queue import call_slurm, complaint
from repro.launch.slurm.render import current_places, render_script
from repro.launch.slurm.sbatch import environment
from repro.launch.slurm.snapshot import SNAPSHOTS, link_snapshot, read_sources
from repro.launch.status.ledger import ledger_dir
from repro.launch.submit import locked, make_folder

PATIENCE_S = 1800.0  # the job may wait for nodes
NAME = "doctor"


class Unmet(ReproError):
    """The job ran, and failed."""


def meet(cluster: str) -> list[str]:
    """Runs the job and waits for it; cancels it where the wait ends early.

    Args:
        cluster: name of a profile.

    Returns:
        The line of each node, sorted.

    Raises:
        UserError: no such profile, no partition of it has two nodes, or Slurm refuses the job.
        Unmet: it failed; with the last lines of its log.
    """
    profile = load_profile(cluster)
    two = {"nodes": max(2, profile.nodes), "tasks_per_node": 1, "time": "00:05:00"}
    read_limits().refuse(profile.model_copy(update={**two, "name": f"{cluster} on two nodes"}))
    places = current_places(f"{NAME}-{secrets.token_hex(4)}")
    folder = places.submission
    with locked(ledger_dir()):
        for made in (folder, ledger_dir() / SNAPSHOTS):
            make_folder(made)
        (folder / "logs").mkdir()
        link_snapshot(folder, read_sources()[0])
    script = folder / "meeting.sbatch"
    job = PlannedJob(folder.name, {})  # by this name it can be cancelled while its number is not known
    write_atomic(script, render_script(job, profile, places, template="meeting").encode())
    words = ["sbatch", "--wait", "--parsable", str(script)]
    waits = f"waiting for the job {job.name}, for at most {PATIENCE_S / 60:.0f} minutes; Ctrl-C cancels it"
    print(waits, file=sys.stderr, flush=True)
    try:
        done = call_slurm(words, environment(profile, os.environ), PATIENCE_S)
    except BaseException:
        with contextlib.suppress(UserError):
            call_slurm(["scancel", f"--name={job.name}"])
        shutil.rmtree(folder, ignore_errors=True)
        raise
    (folder / "code").unlink()  # so that `repro clean` takes the snapshot
    lines = _log(folder / "logs")
    if done.returncode and lines:
        raise Unmet(f"the job failed: {lines[-1]}; its log is in {folder / 'logs'}")
    shutil.rmtree(folder, ignore_errors=True)
    if done.returncode:
        raise UserError(f"sbatch: {complaint(done)}; look at the cluster profile {cluster}")
    return sorted(lines)


def _log(folder: Path) -> list[str]:
    """The lines of the log; those of Slurm itself only where there are no others."""
    lines = [line for path in folder.glob("*.log") for line in path.read_text(errors="replace").splitlines()]
    own = [line for line in lines if line.strip() and not line.startswith(("srun: ", "slurmstepd"))]
    return own or lines
