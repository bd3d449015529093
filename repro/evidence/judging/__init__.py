"""Judging our numbers beside published ones: margins, statistics, verdicts."""
