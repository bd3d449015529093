"""What the process that holds the run reads and writes, without a run."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from repro.tracking import process
from repro.tracking.process import Sender, lines_from, mark_synced, payloads


def log_of(*records: bytes) -> bytes:
    """A log as LevelDB writes it, behind W&B's header."""
    out = b":W&B\xc3\xbe\x00"
    for record in records:
        rest, first = record, True
        while first or rest:
            room = 32768 - len(out) % 32768
            if room < 7:
                out += b"\0" * room
                continue
            chunk, rest = rest[: room - 7], rest[room - 7 :]
            kind = (1 if first else 4) if not rest else (2 if first else 3)
            out, first = out + struct.pack("<IHB", 0, len(chunk), kind) + chunk, False
    return out


@pytest.mark.parametrize(
    "records",
    [
        [],
        [b"a", b"", b"ccc"],
        [b"x" * 100_000, b"y"],
        [b"x" * (32768 - 14), b"y"],
        [b"x" * (32768 - 14 - 3), b"y", b"z"],
        [b"x" * (32768 - 21), b"yy"],
    ],
    ids=["none", "small", "four blocks", "to a block's end", "padding", "a header at a block's end"],
)
def test_every_record_of_a_log_is_read(records: list[bytes]) -> None:
    assert list(payloads(log_of(*records))) == records


def test_a_log_that_was_cut_off_gives_what_is_whole() -> None:
    whole = log_of(b"first", b"second" * 10_000)
    for cut in (3, 7, 12, 19, 25, 33_000, len(whole) - 1):
        expected = [b"first"] if cut >= 19 else []
        assert list(payloads(whole[:cut])) == expected, cut
    assert list(payloads(whole[:19] + b"\0" * 500)) == [b"first"]


def test_lines_are_read_whole_only(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_bytes(b'{"row": 1}\nnonsense\n[2]\n{"row": 3}\n{"ro')
    assert list(lines_from(rows, 0)) == [({"row": 1}, 11), ({}, 20), ({}, 24), ({"row": 3}, 35)]
    assert list(lines_from(rows, 24)) == [({"row": 3}, 35)]


class Taken:
    """Stands for W&B's run: refuses one value, as the client does what it cannot encode."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def log(self, row: dict[str, Any]) -> None:
        if row.get("x") == "refused":
            raise TypeError("cannot encode")
        self.rows.append(row)


def test_rows_that_are_there_already_are_passed_over() -> None:
    run = Taken()
    to = Sender(run, had={1.0, 2.0}, uploaded=2)
    for at in range(6):
        to.send({"row": {"x": at}, "at": float(at)})
    to.send({"about": {}})
    assert run.rows == [{"x": 4, "_timestamp": 4.0}, {"x": 5, "_timestamp": 5.0}]


def test_a_row_that_wandb_refuses_still_counts_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Else the count of rows that are online would be wrong after a restart."""
    run = Taken()
    to = Sender(run, set(), 0)
    for at, value in enumerate((0, "refused", 2)):
        to.send({"row": {"x": value}, "at": float(at)})
    assert run.rows == [{"x": 0, "_timestamp": 0.0}, {"_timestamp": 1.0}, {"x": 2, "_timestamp": 2.0}]
    assert capsys.readouterr().out == "left out: TypeError: cannot encode\n"


def test_a_dead_service_is_not_taken_for_a_bad_row() -> None:
    class Dead:
        def log(self, row: dict[str, Any]) -> None:
            raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError):
        Sender(Dead(), set(), 0).send({"row": {"x": 1}, "at": 1.0})


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
