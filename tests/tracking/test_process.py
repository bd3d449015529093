"""What the process that holds the run reads and writes, without a run."""

import json
from pathlib import Path

from repro.tracking import process
from repro.tracking.process import lines_from, mark_synced


def test_lines_are_read_whole_only(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_bytes(b'{"row": 1}\nnonsense\n[2]\n{"row": 3}\n{"ro')
    assert list(lines_from(rows, 0)) == [({"row": 1}, 11), ({}, 20), ({}, 24), ({"row": 3}, 35)]
    assert list(lines_from(rows, 24)) == [({"row": 3}, 35)]


def test_what_it_says_is_replaced_whole_and_remembers_what_earlier_ones_knew(tmp_path: Path) -> None:
    path = tmp_path / "rows-1.state"
    first = process.State(path, "online", {"first_step": 4, "fragments": ["run-1"]})
    first.say(phase="on", url="http://somewhere", answered=10)
    second = process.State(path, "offline", {})
    said = json.loads(path.read_text())
    assert said == second.said
    assert (said["first_step"], said["fragments"]) == (4, ["run-1"])
    assert (said["phase"], said["answered"], said["url"], said["mode"]) == ("starting", 0, None, "offline")
    assert [p.name for p in tmp_path.iterdir()] == ["rows-1.state"]


def test_only_online_fragments_are_marked_as_sent(tmp_path: Path) -> None:
    for name in ("run-1-a", "offline-run-2-a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run-a.wandb").touch()
    mark_synced(tmp_path, ["run-1-a", "offline-run-2-a", "run-gone"])
    assert [p.parent.name for p in tmp_path.rglob("*.synced")] == ["run-1-a"]
