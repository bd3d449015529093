"""The job of `repro doctor --cluster` without a cluster; with one it is in `tests/slurm/test_status.py`."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from repro.launch import meeting
from repro.paths import runs_dir


def test_two_at_a_time_leave_each_other_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path / "runs"))
    said: list[list[str]] = []

    def sbatch(words: list[str], *_: Any) -> subprocess.CompletedProcess[str]:
        if not said:
            said.append(["under way"])
            said[0] = meeting.meet("example")
        (Path(words[-1]).parent / "logs" / "1.log").write_text("node1: torch\n")
        return subprocess.CompletedProcess(words, 0, "1", "")

    monkeypatch.setattr(meeting, "call_slurm", sbatch)
    assert meeting.meet("example") == said[0] == ["node1: torch"]
    assert sorted(path.name for path in (runs_dir() / "slurm").iterdir()) == [".lock", "snapshots"]
