"""Slurm: which runs a target names, what they cost, and the script that runs them.

Knows the command line (``repro run``), not the models; loads without torch.
"""

from repro.launch.submit import Submission, dry_run, plan_submission
from repro.launch.targets import RunSpec, pending, resolve_targets

__all__ = ["RunSpec", "Submission", "dry_run", "pending", "plan_submission", "resolve_targets"]
