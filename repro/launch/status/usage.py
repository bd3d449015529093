"""The usage of a run: its GPUs, training time and GPU hours."""

import json
import re
from datetime import datetime
from functools import cache
from pathlib import Path

from repro.launch.status.job_state import RunFacts
from repro.launch.status.run_index import RunEntry
from repro.paths import runs_dir
from repro.record import RECORD_FILE

_REQUESTED = re.compile(r"^#SBATCH --(nodes|gpus-per-node)=(?:.*:)?(\d+)$", re.MULTILINE)


def gpus_of(entry: RunEntry) -> int | None:
    """Number of GPUs that the script of a run asks for; None for one that was not submitted."""
    if entry.submission is None or entry.job is None:
        return None
    return _gpus_asked(entry.submission.folder / entry.job.script)


@cache
def _gpus_asked(script: Path) -> int | None:
    try:
        requested = dict(_REQUESTED.findall(script.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
    return int(requested.get("nodes", 1)) * int(requested.get("gpus-per-node", 0))


def usage(facts: RunFacts) -> tuple[float | None, float | None]:
    """Returns the seconds of training so far, over all attempts, and the GPU hours; None where unknown."""
    if facts.recorded:
        return _recorded(runs_dir() / facts.entry.run / RECORD_FILE, facts.recorded)
    tokens, speed = facts.status.get("tokens"), facts.status.get("train/tokens_per_s")
    if not isinstance(tokens, int | float) or not isinstance(speed, int | float) or not speed > 0:
        return None, None
    gpus = gpus_of(facts.entry)
    return tokens / speed, None if gpus is None else tokens / speed / 3600 * gpus


@cache
def _recorded(path: Path, written: datetime) -> tuple[float | None, float | None]:
    """The facts in the record, which was written at that time."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return float(raw["wall_seconds"]), float(raw["gpu_hours"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, None
