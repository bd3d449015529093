"""Slurm: the runs that a target names, their cost, and the jobs that run them.

Knows the command line (``repro run``), not the models; loads without torch.
"""

from repro.launch.plan import Plan, Request, make_plan
from repro.launch.targets import RunSpec, resolve_targets

__all__ = ["Plan", "Request", "RunSpec", "make_plan", "resolve_targets"]
