"""Hands one script to ``sbatch``."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from repro.errors import ReproError, UserError
from repro.launch.slurm.profile import Profile

PATIENCE = 120.0  # seconds; sbatch itself retries for about 100 where the controller is busy
UNCERTAIN = re.compile(r"timed out|unable to contact|zero bytes|communication|connection", re.IGNORECASE)


class Unanswered(ReproError):
    """``sbatch`` failed in a way that leaves open whether the job is queued."""


def environment(profile: Profile, shell: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of this shell for ``sbatch`` and the job.

    ``SBATCH_*`` overrides the script, so only variables for settings that the profile leaves open are kept; ``SLURM_*``
    of an allocation that the shell runs in would change the job. ``SLURM_CLUSTERS`` is kept, since ``squeue``,
    ``scancel`` and ``scontrol`` follow it too.

    Args:
        profile: the cluster.
        shell: the shell's environment.
    """
    queue = profile.queue
    open_to_user = {
        "SBATCH_ACCOUNT": queue.account, "SBATCH_PARTITION": queue.partition, "SBATCH_QOS": queue.qos,
        "SBATCH_CONSTRAINT": queue.constraint, "SBATCH_RESERVATION": queue.reservation,
    }  # fmt: skip
    kept = {"SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS"}
    kept |= {name for name, value in open_to_user.items() if value is None}
    return {n: v for n, v in shell.items() if n in kept or not n.startswith(("SBATCH_", "SLURM_", "SRUN_"))}


def submit_script(script: Path, profile: Profile) -> int:
    """Submits a script that is on disk; returns the job's id.

    Raises:
        UserError: ``sbatch`` is missing or refuses; gives its own words.
        Unanswered: no answer, so the job may be queued or not.
    """
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", str(script)],
            env=environment(profile, os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(f"sbatch did not answer within {PATIENCE:.0f} s") from None
    except OSError as error:
        raise UserError(
            f"sbatch cannot be started: {error.strerror}; submit on the cluster's login node"
        ) from None
    number = done.stdout.strip().rpartition("\n")[2].partition(";")[0]
    if done.returncode == 0 and number.isdigit():
        return int(number)
    complaint = _complaint(done.stderr) or f"exit code {done.returncode}, no message"
    if done.returncode == 0 or UNCERTAIN.search(complaint):
        raise Unanswered(f"sbatch: {complaint}")
    raise UserError(
        f"sbatch refuses: {complaint}; look at account, partition, qos, constraint, reservation, time and sizes in "
        f"the cluster profile {profile.name}"
    )


def _complaint(text: str) -> str:
    """The informative lines of an error, joined, without sbatch's prefixes."""
    lines = [re.sub(r"^sbatch: (error: )?", "", line.strip()) for line in text.splitlines()]
    return ", ".join(dict.fromkeys(re.sub(r"[\x00-\x1f\x7f]", " ", line) for line in lines if line))
