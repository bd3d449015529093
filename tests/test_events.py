"""The one file of a run: appended, cut back, read, and whatever is wrong with it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from repro import events
from repro.errors import ReproError
from repro.events import EventLog, decode, encode, read, status


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    """The events of a run that has started."""
    made = EventLog(tmp_path)
    made.begin(b"", 0, {"max_steps": 10})
    return made


def point(log: EventLog, *steps: int, **more: float) -> None:
    for step in steps:
        log.append(
            "train", step, {"train/loss": 1 / step, "train/lr": 0.1, "trainer/tokens": 5 * step, **more}
        )


def steps(log: EventLog, kind: str = "train") -> list[int]:
    return [event["step"] for event in read(log.path) if event["kind"] == kind]


def test_events_are_lines_of_json_in_order(log: EventLog) -> None:
    point(log, 1, 2)
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [(line["step"], line["kind"]) for line in lines] == [(0, "state"), (1, "train"), (2, "train")]
    assert all(abs(line["t"] - time.time()) < 60 for line in lines)
    assert log.size == log.path.stat().st_size


def test_attempts_tell_which_updates_of_each_were_kept(log: EventLog) -> None:
    for step, code in ((4, "b"), (2, "c"), (2, "d")):
        EventLog(log.path.parent).begin(b"", step, {"config": {"code": code}})
    attempts = events.attempts(read(log.path), 9, ("code",))
    assert [(a["code"], a["first"], a["last"]) for a in attempts] == [
        (None, 0, 2),
        ("b", 4, 4),
        ("c", 2, 2),
        ("d", 2, 9),
    ]
    assert status(log.path.parent)["attempt"] == 4


def test_a_new_attempt_keeps_what_the_checkpoint_knew_and_every_state(log: EventLog) -> None:
    point(log, 1, 2)
    known = log.path.read_bytes()
    log.append("train", 2, {"train/grad_norm": 1.0})  # logged of step 2 once it is saved
    point(log, 3, 4)
    log.append("val", 2, {"val/loss": 1.0})  # made again
    log.append("state", 4, {"state": "requeue"})
    again = EventLog(log.path.parent)
    again.begin(known, 2, {"max_steps": 10})
    assert log.path.read_bytes().startswith(known), "earlier checkpoints find their place"
    assert (steps(again), steps(again, "val"), steps(again, "state")) == ([1, 2, 2], [], [0, 4, 2])
    result = status(log.path.parent)
    assert (result["attempt"], result["state"], result["step"], result["resumed_from"]) == (
        2,
        "starting",
        2,
        2,
    )


def test_a_run_that_continues_another_begins_with_its_numbers(log: EventLog, tmp_path: Path) -> None:
    point(log, 1, 2)
    own = EventLog(tmp_path / "own")
    own.begin(events.only_metrics(log.path.read_bytes()), 2, {})
    assert (steps(own), status(own.path.parent)["attempt"]) == ([1, 2], 1)


def test_a_validation_that_is_made_again_is_left_out(log: EventLog) -> None:
    for step in (1, 2):
        point(log, step)
        log.append("val", step, {"val/loss": 1.0})
    kept = [(event["step"], event["kind"]) for event in decode(events.only_metrics(log.path.read_bytes(), 2))]
    assert kept == [(1, "train"), (1, "val"), (2, "train")]


def test_a_full_disk_loses_nothing_and_ends_only_what_must_be_durable(
    log: EventLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", full)
        point(log, 1, 2)
        with pytest.raises(ReproError, match="no space left"):
            log.sync()
    assert capsys.readouterr().err.count("No space left") == 1
    with log.path.open("ab") as file:
        file.write(b'{"t": 1, "st')  # a line that was written in part
    point(log, 3)
    log.sync()
    assert steps(log) == [1, 2, 3]


@pytest.mark.parametrize("left", [None, 0, 5])
def test_a_file_that_is_removed_or_shortened_is_no_more_written_to(
    log: EventLog, capsys: pytest.CaptureFixture[str], left: int | None
) -> None:
    """It would begin with zeros, and the record would have no attempts."""
    point(log, 1)
    log.path.unlink() if left is None else log.path.write_bytes(log.path.read_bytes()[:left])
    point(log, 2, 3)
    assert "events.jsonl is not up to date" in capsys.readouterr().err
    assert (log.path.stat().st_size if log.path.exists() else None) == left
    with pytest.raises(ReproError, match=r"events\.jsonl: it was shortened or removed; restore it, or run"):
        log.sync()


def test_a_run_that_fails_before_it_begins_keeps_its_events(log: EventLog) -> None:
    point(log, 1, 2)
    again = EventLog(log.path.parent)
    again.fail("the folder cannot be written")
    assert steps(again) == [1, 2]
    assert status(log.path.parent)["state"] == "failed"


def test_lines_that_are_none_are_left_out() -> None:
    good = encode("train", 1, {"train/loss": float("nan")})
    bad = [b"[1]", b"{", b"\xff", b'{"kind": "state", "step": "x", "t": 1}', b'{"kind": "state", "step": 1}']
    (result,) = decode(b"\n".join([*bad, good]) + b'{"t": 1, "step": 2, "kind": "train"}')
    assert result["train/loss"] != result["train/loss"]
    assert read(Path("nowhere")) == []


def test_curves_are_points_and_validations(log: EventLog) -> None:
    point(log, 1, 2)
    log.append("train", 2, {"train/grad_norm": 1.0})
    log.append("val", 2, {"val/loss": 0.25, "epoch": 0})
    log.append("test", 2, {"test/loss": 0.5, "val/loss": 9.0})
    drawn = {"train/loss": [[1, 1.0], [2, 0.5]], "train/lr": [[1, 0.1], [2, 0.1]], "val/loss": [[2, 0.25]]}
    assert events.curves(read(log.path)) == drawn


def test_the_first_message_of_any_rank_is_the_cause(log: EventLog) -> None:
    log.append("state", 7, {"state": "training"})
    log.fail("NaN in\n layer 3", rank=1)
    time.sleep(0.002)
    log.fail("Connection closed by peer")  # of a rank that noticed later
    result = status(log.path.parent)
    assert (result["state"], result["message"], result["step"]) == ("failed", "NaN in layer 3", 7)
    log.begin(b"", 0, {})
    result = status(log.path.parent)
    assert (result["state"], result["attempt"], result["message"]) == ("starting", 2, "")


def test_a_rank_that_fails_after_the_others_saved_changes_nothing(log: EventLog) -> None:
    log.append("state", 7, {"state": "requeue"})
    log.fail("Connection closed by peer", rank=1)
    assert status(log.path.parent)["state"] == "requeue"


def write(folder: Path, *lines: tuple[float, int, str, dict[str, Any]]) -> None:
    content = b"".join(encode(kind, step, values, t) for t, step, kind, values in lines)
    (folder / events.EVENTS_FILE).write_bytes(content)


def test_time_left_follows_from_the_times(tmp_path: Path) -> None:
    first = (160.0, 4, "state", {"state": "starting", "max_steps": 100, "resumed_from": 4})
    training = (170.0, 5, "state", {"state": "training"})
    write(tmp_path, first, training, (180.0, 10, "train", {"train/lr": 1.0, "train/loss": 2.0}))
    result = status(tmp_path)
    assert (result["seconds_left"], result["step"]) == (180, 10)
    assert (result["updated"], result["train/loss"]) == ("1970-01-01T00:03:00Z", 2.0)


def test_clocks_that_go_back_make_no_negative_times(tmp_path: Path) -> None:
    first = (160.0, 0, "state", {"state": "starting", "max_steps": 100})
    write(tmp_path, first, (150.0, 1, "state", {"state": "training"}), (140.0, 2, "train", {"train/lr": 1.0}))
    assert status(tmp_path)["seconds_left"] == 0
    assert events.seconds(read(tmp_path / events.EVENTS_FILE)) == 0


def test_a_time_in_the_future_is_no_sign_of_life(tmp_path: Path) -> None:
    for ahead, fresh in ((60, True), (3600, False)):
        write(tmp_path, (time.time() + ahead, 0, "state", {"state": "starting"}))
        assert events.is_fresh(status(tmp_path)) == fresh


def test_a_validation_is_news_of_a_run(tmp_path: Path) -> None:
    first = (160.0, 0, "state", {"state": "starting", "max_steps": 100})
    write(tmp_path, first, (170.0, 1, "train", {"train/lr": 1.0}), (185.0, 1, "val", {"val/loss": 2.0}))
    assert status(tmp_path)["updated"] == "1970-01-01T00:03:05Z"


def test_a_rank_that_fails_later_is_not_the_cause(tmp_path: Path) -> None:
    first = (50.0, 0, "state", {"state": "starting", "max_steps": 100})
    write(tmp_path, first, (200.0, 1, "state", {"state": "failed", "message": "rank 0"}))
    later = encode("state", 1, {"state": "failed", "message": "rank 1"}, 300.0)
    (tmp_path / "events-1.jsonl").write_bytes(later)
    assert status(tmp_path)["message"] == "rank 0"


def test_a_start_that_is_a_note_is_a_state_too(tmp_path: Path) -> None:
    write(tmp_path, (50.0, 0, "note", {"state": "starting"}))
    assert status(tmp_path)["state"] == "starting"


@pytest.mark.parametrize(
    "line",
    [
        b'{"t": 1, "step": 0, "kind": "state", "state": "starting", "run": "a", "config": "x"}',
        b'{"t": 1e300, "step": 0, "kind": "state", "state": "starting", "run": "a"}',
        b'{"t": NaN, "step": 0, "kind": "train"}',
        b'{"t": 1, "step": 0, "kind": "state"}',
        b'{"t": 1, "step": 0, "kind": "state", "state": ["starting"]}',
        b'{"t": 1, "step": 0, "kind": "state", "state": "starting", "max_steps": "20"}',
        b'{"t": 1, "step": 0, "kind": "state", "state": "starting", "job": [12]}',
        b'{"t": 1, "step": 0, "kind": "train", "x": ' + 100_000 * b"[",
    ],
)
def test_damaged_events_are_left_out(tmp_path: Path, line: bytes) -> None:
    (tmp_path / events.EVENTS_FILE).write_bytes(line + b"\n")
    assert read(tmp_path / events.EVENTS_FILE) == []
    assert status(tmp_path) == {}
