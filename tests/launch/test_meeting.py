"""The job of `repro doctor --cluster` without a cluster; with one it is in `tests/slurm/test_status.py`."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.errors import UserError
from repro.launch import meeting
from repro.launch.slurm.limits import Limits
from repro.paths import runs_dir

UNKNOWN = Limits()


def answering(monkeypatch: pytest.MonkeyPatch, sbatch: Callable[..., Any], limits: Limits = UNKNOWN) -> None:
    monkeypatch.setattr(meeting, "call_slurm", sbatch)
    monkeypatch.setattr(meeting, "read_limits", lambda: limits)


def test_two_at_a_time_leave_each_other_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path / "runs"))
    said: list[list[str]] = []

    def sbatch(words: list[str], *_: Any) -> subprocess.CompletedProcess[str]:
        if not said:
            said.append(["under way"])
            said[0] = meeting.meet("example")
        (Path(words[-1]).parent / "logs" / "1.log").write_text("node1: torch\n")
        return subprocess.CompletedProcess(words, 0, "1", "")

    answering(monkeypatch, sbatch)
    assert meeting.meet("example") == said[0] == ["node1: torch"]
    assert sorted(path.name for path in (runs_dir() / "slurm").iterdir()) == [".lock", "snapshots"]


def test_a_wait_that_ends_early_cancels_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path / "runs"))
    called: list[list[str]] = []
    names: list[str] = []

    def slurm(words: list[str], *_: Any) -> None:
        called.append(words)
        if words[0] == "sbatch":
            names.extend(re.findall("--job-name=(.*)", Path(words[-1]).read_text()))
            raise KeyboardInterrupt

    answering(monkeypatch, slurm)
    with pytest.raises(KeyboardInterrupt):
        meeting.meet("example")
    assert called[1:] == [["scancel", f"--name={names[0]}"]]
    assert (
        f"waiting for the job {names[0]}, for at most 30 minutes; Ctrl-C cancels it"
        in capsys.readouterr().err
    )
    assert sorted(path.name for path in (runs_dir() / "slurm").iterdir()) == [".lock", "snapshots"]


def test_one_node_is_not_asked_for_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path / "runs"))
    called: list[list[str]] = []
    partition = {"PartitionName": "gpu", "Default": "YES", "TotalNodes": "1"}
    answering(monkeypatch, called.append, Limits(partitions=[partition]))
    with pytest.raises(
        UserError, match=r"example on two nodes asks for .* nodes: '2' \(1 in partition gpu\)"
    ):
        meeting.meet("example")
    assert called == []
