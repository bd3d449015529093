"""Slurm: the runs that a target names, their cost, and the jobs that run them.

Uses the command line (``repro run``), not the models; loads without torch.
"""
