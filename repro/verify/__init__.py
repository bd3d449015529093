"""Checks a record: runs its command again from its commit, compares, keeps the outcome. Needs no torch."""

from repro.verify.comparison import Comparison, Deviation, compare, failed
from repro.verify.kept import (
    BIT_EQUAL,
    CONFIRMING,
    DIFFERS,
    EQUAL_METRICS,
    FAILED,
    WITHIN_SPREAD,
    Outcome,
    keep,
    outcomes,
)
from repro.verify.worktree import Replay, refuse, replay

__all__ = [
    "BIT_EQUAL",
    "CONFIRMING",
    "DIFFERS",
    "EQUAL_METRICS",
    "FAILED",
    "WITHIN_SPREAD",
    "Comparison",
    "Deviation",
    "Outcome",
    "Replay",
    "compare",
    "failed",
    "keep",
    "outcomes",
    "refuse",
    "replay",
]
