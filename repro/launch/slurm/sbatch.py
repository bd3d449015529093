"""Hands one script to ``sbatch``."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from repro.errors import UserError
from repro.launch.slurm.profile import Profile
from repro.launch.slurm.queue import Unanswered, call_slurm, complaint

PATIENCE = 120.0  # seconds; sbatch itself retries for about 100 where the controller is busy
UNCERTAIN = re.compile(
    r"timed out|unable to contact|zero bytes|communication|connection|configuration source", re.IGNORECASE
)


def environment(profile: Profile, shell: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of this shell for ``sbatch`` and the job.

    ``SBATCH_*`` overrides the script, so only variables for settings that the profile leaves open are kept; ``SLURM_*``
    of an allocation that the shell runs in would change the job. ``SLURM_CLUSTERS`` is kept, since ``squeue``,
    ``scancel`` and ``scontrol`` follow it too.

    Args:
        profile: the cluster.
        shell: the shell's environment.
    """
    keys = ("account", "partition", "qos", "constraint", "reservation", "exclude")
    kept = {"SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS"}
    kept |= {f"SBATCH_{key.upper()}" for key in keys if getattr(profile, key) is None}
    return {n: v for n, v in shell.items() if n in kept or not n.startswith(("SBATCH_", "SLURM_", "SRUN_"))}


def test_script(text: str, profile: Profile) -> None:
    """Asks Slurm whether it would take a script; nothing is queued.

    Raises:
        UserError: it refuses, or is not here; gives its own words.
        Unanswered: no answer.
    """
    done = call_slurm(["sbatch", "--test-only"], environment(profile, os.environ), PATIENCE, text)
    if done.returncode:
        raise _refusal(complaint(done), profile)


def submit_script(script: Path, profile: Profile) -> int:
    """Submits a script that is on disk; returns the job's id.

    Raises:
        UserError: ``sbatch`` is missing or refuses; gives its own words.
        Unanswered: no answer, so the job may be queued or not.
    """
    done = call_slurm(["sbatch", "--parsable", str(script)], environment(profile, os.environ), PATIENCE)
    number = done.stdout.strip().rpartition("\n")[2].partition(";")[0]
    if done.returncode:
        raise _refusal(complaint(done), profile)
    if not number.isdigit():
        raise Unanswered(f"sbatch: {complaint(done)}")
    return int(number)


def _refusal(reason: str, profile: Profile) -> UserError:
    if UNCERTAIN.search(reason):
        return Unanswered(f"sbatch: {reason}")
    return UserError(
        f"sbatch refuses: {reason}; look at account, partition, qos, constraint, reservation, time and sizes in "
        f"the cluster profile {profile.name}"
    )
