"""The summary of ``repro status``: counts of runs by state, GPU hours, and when the last run may end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from statistics import mean

from repro.errors import UserError
from repro.grouping import grouped
from repro.launch.cost import expectation
from repro.launch.status.job_state import UNDER_WAY, never_starts
from repro.launch.status.state import RunState
from repro.recipe import load_recipe

_GROUPS = {
    "running": (*UNDER_WAY, "ending", "suspended"), "queued": ("queued", "requeued", "submitted"), "done": ("done",),
    "stopped": ("stopped", "cancelled"),
}  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """The summary of many runs.

    Attributes:
        done, running, queued, failed, stopped: how many runs; stopped are those that someone asked to stop.
        gpu_hours_used: of what is known.
        gpu_hours_left: of runs that are running or queued; None where the duration of one is unknown.
        seconds_left: until the last of them ends, if as many run at a time as now; None where unknown.
        expected_end: that moment, ISO 8601, UTC.
    """

    done: int
    running: int
    queued: int
    failed: int
    stopped: int
    gpu_hours_used: float
    gpu_hours_left: float | None
    seconds_left: float | None
    expected_end: str | None

    @property
    def lines(self) -> list[str]:
        """Returns at most two lines for the terminal."""
        names = ("done", "running", "queued", "failed", "stopped")
        counts = {name: int(getattr(self, name)) for name in names}
        runs = sum(counts.values())
        known = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        lines = [f"{runs} run{'s' * (runs != 1)}: {known}"]
        parts = []
        if self.gpu_hours_used or self.gpu_hours_left:
            left = "unknown" if self.gpu_hours_left is None else f"{self.gpu_hours_left:.1f}"
            parts.append(f"GPU hours: {self.gpu_hours_used:.1f} used, {left} left")
        if self.expected_end:
            parts.append(f"expected end: {self.expected_end[:16].replace('T', ' ')} UTC")
        elif self.running or self.queued:
            parts.append("expected end: unknown")
        return [*lines, *(["; ".join(parts)] if parts else [])]


def summarise(rows: Sequence[RunState], now: datetime | None = None) -> Summary:
    """Sums up the rows of a table."""
    groups: dict[str, list[RunState]] = {name: [] for name in (*_GROUPS, "failed")}
    for row in rows:
        groups[next((name for name, states in _GROUPS.items() if row.state in states), "failed")].append(row)
    done = [(row.run.rpartition("/")[0], row.wall_s) for row in groups["done"]]
    took = grouped((experiment, time) for experiment, time in done if time is not None)  # of readable records
    expected = cache(_expected)
    running = [_needs(row, took, expected) for row in groups["running"]]
    queued = [_needs(row, took, expected) for row in groups["queued"]]
    hours: float | None = 0.0
    for row, seconds in zip((*groups["running"], *groups["queued"]), (*running, *queued), strict=True):
        hours = None if hours is None or seconds is None else hours + seconds / 3600 * (row.gpus or 0)
    left = _last_end(running, queued)
    end = None if left is None else (now or datetime.now(UTC)) + timedelta(seconds=left)
    return Summary(
        **{name: len(members) for name, members in groups.items()},
        gpu_hours_used=sum(row.gpu_hours or 0 for row in rows),
        gpu_hours_left=hours,
        seconds_left=left,
        expected_end=end.strftime("%Y-%m-%dT%H:%M:%SZ") if end else None,
    )


def _needs(
    row: RunState, took: Mapping[str, Sequence[float]], expected: Callable[[str, str], float | None]
) -> float | None:
    """Estimates the seconds that a run needs: from its events, finished runs of its experiment, or its recipe.

    None for a run that never starts, or where nothing is known.
    """
    if row.seconds_left is not None or never_starts(row.reason):
        return row.seconds_left
    experiment, _, scale = row.run.rpartition("/")[0].rpartition("/")
    finished = took.get(f"{experiment}/{scale}")
    whole = mean(finished) if finished else expected(experiment, scale)
    share = (row.step or 0) / row.max_steps if row.max_steps else 0.0
    return None if whole is None else whole * max(1 - share, 0.0)


def _expected(experiment: str, scale: str) -> float | None:
    try:
        expected = expectation(load_recipe(experiment, scale))
    except UserError:  # its recipe is gone or damaged
        return None
    return None if expected is None else 3600 * expected.hours


def _last_end(running: Sequence[float | None], queued: Sequence[float | None]) -> float | None:
    """Seconds until all have ended, if as many run at a time as now. None where nothing moves or is known."""
    known = [seconds for seconds in (*running, *queued) if seconds is not None]
    if not known or len(known) < len(running) + len(queued):
        return None
    return max(*known, sum(known) / max(len(running), 1))
