"""``repro doctor --cluster``: a job of seconds checks whether a run on several nodes of a cluster can work."""

import os
import secrets
import shutil
from pathlib import Path

from repro.errors import ReproError, UserError
from repro.files import write_atomic
from repro.launch.slurm.chain import PlannedJob
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
    """Runs the job and waits for it.

    Args:
        cluster: name of a profile.

    Returns:
        The line of each node, sorted.

    Raises:
        UserError: no such profile, or Slurm refuses the job.
        Unmet: it failed; with the last lines of its log.
    """
    profile = load_profile(cluster)
    places = current_places(f"{NAME}-{secrets.token_hex(4)}")
    folder = places.submission
    with locked(ledger_dir()):
        for made in (folder, ledger_dir() / SNAPSHOTS):
            make_folder(made)
        (folder / "logs").mkdir()
        link_snapshot(folder, read_sources()[0])
    script = folder / "meeting.sbatch"
    write_atomic(script, render_script(PlannedJob(NAME, {}), profile, places, template="meeting").encode())
    words = ["sbatch", "--wait", "--parsable", str(script)]
    done = call_slurm(words, environment(profile, os.environ), PATIENCE_S)
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
