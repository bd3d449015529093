"""The limits of a Slurm site as ``scontrol`` states them, which ``sbatch`` does not check everywhere."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro.errors import UserError
from repro.grouping import grouped
from repro.launch.slurm.profile import Profile
from repro.launch.slurm.queue import call_slurm
from repro.launch.slurm.validation import hours

DEFAULT_ARRAY = 1000  # Slurm's default MaxArraySize is 1001
_NONE = ("UNLIMITED", "NONE", "")


@dataclass(frozen=True)
class Limits:
    """Limits of a site.

    Attributes:
        largest_array: tasks of one job array.
        partitions: facts of each partition, by Slurm's names for them.
        settings: of the controller.
    """

    largest_array: int = DEFAULT_ARRAY
    partitions: Sequence[Mapping[str, str]] = ()
    settings: Mapping[str, str] | None = None

    def refuse(self, profile: Profile) -> None:
        """Refuses a profile whose jobs no partition would ever start.

        Raises:
            UserError: names a key, its value and the limit for each partition.
        """
        cpus = profile.tasks_per_node * profile.cpus_per_task
        asked: list[tuple[str, str, str | int]] = [
            ("MaxTime", "time", profile.time),
            ("MaxNodes", "nodes", profile.nodes),
            ("TotalNodes", "nodes", profile.nodes),
            ("MaxCPUsPerNode", "cpus_per_task times tasks_per_node", cpus),
            ("TotalCPUs", "cpus_per_task times tasks_per_node times nodes", cpus * profile.nodes),
        ]
        usual = [p["PartitionName"] for p in self.partitions if p.get("Default") == "YES"]
        wanted = profile.partition or os.environ.get("SBATCH_PARTITION")
        names = wanted.split(",") if wanted else usual
        chosen = [p for p in self.partitions if p["PartitionName"] in names]  # none if they are unknown
        refused = []  # by each partition: one value and its limit
        for p in chosen:
            above = ((f"{k}: {str(v)!r}", p[limit]) for limit, k, v in asked if _above(v, p.get(limit, "")))
            refused += [(value, f"{cap} in partition {p['PartitionName']}") for value, cap in above][:1]
        if chosen and len(refused) == len(chosen):
            words = "; ".join(f"{value} ({', '.join(caps)})" for value, caps in grouped(refused).items())
            raise UserError(
                f"the cluster profile {profile.name} asks for more than Slurm allows: {words}, so the jobs would never "
                "start; lower it, or choose another partition"
            )


def _above(value: str | int, cap: str) -> bool:
    """Whether a number, or a time in Slurm's notation, is above a limit."""
    return cap not in _NONE and (hours(value) > hours(cap) if isinstance(value, str) else value > int(cap))


def read_limits() -> Limits:
    """Asks the controller; where it does not answer or is not here, the limits are Slurm's defaults."""
    try:
        config = call_slurm(["scontrol", "show", "config"])
        shown = call_slurm(["scontrol", "show", "partition", "--oneliner"])
    except UserError:
        return Limits()
    settings = dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", config.stdout, re.MULTILINE))
    partitions = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in shown.stdout.splitlines()]
    most = settings.get("MaxArraySize", "")
    largest_array = int(most) - 1 if most.isdigit() and int(most) > 1 else DEFAULT_ARRAY
    return Limits(largest_array, [p for p in partitions if "PartitionName" in p], settings)
