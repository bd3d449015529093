"""Missing rows are sent once; running runs are skipped or followed."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.events import EventLog, encode
from repro.mirror import NOTE_FILE, environment
from repro.mirror import sync as syncing
from repro.mirror.sync import Synced, sync, waits, watch
from tests.mirror.conftest import FIRST, NAME, RUN, begin_again, end, put
from tests.wandb_server import WandbServer


def test_a_run_is_sent_whole_then_only_what_is_new(log: EventLog, server: WandbServer) -> None:
    folder = log.path.parent
    put(log, 1, 2)
    assert sync(NAME, folder).state == "running"
    end(log, 2, "requeue")
    assert sync(NAME, folder, dry=True) == Synced(NAME, "planned", 2, 2)
    assert server.requests == []
    assert sync(NAME, folder) == Synced(NAME, "complete", 2, 2)
    begin_again(log, 1)
    put(log, 2, 3)
    end(log, 3)
    assert sync(NAME, folder) == Synced(NAME, "complete", 1, 3)
    assert (server.steps(RUN), server.exits) == ([1, 2, 3], {RUN: 0})
    asked = len(server.requests)
    assert sync(NAME, folder) == Synced(NAME, "complete", 0, 3)
    assert len(server.requests) == asked, "what is known to be there is not asked for"


@pytest.mark.parametrize("other", ["WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_PROJECT"])
def test_what_one_place_has_says_nothing_of_another(
    log: EventLog, server: WandbServer, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    folder = log.path.parent
    put(log, 1, 2)
    end(log, 2)
    assert sync(NAME, folder).sent == 2
    second = WandbServer()
    monkeypatch.setenv(other, second.url if other == "WANDB_BASE_URL" else "other")
    assert sync(NAME, folder, dry=True) == Synced(NAME, "planned", 2, 2)
    if other == "WANDB_BASE_URL":
        assert sync(NAME, folder) == Synced(NAME, "complete", 2, 2)
        assert second.steps(RUN) == [1, 2]
        assert sync(NAME, folder) == Synced(NAME, "complete", 0, 2)
    second.vanish()


def test_a_run_that_was_deleted_on_the_server_is_sent_again_without_its_note(
    log: EventLog, server: WandbServer
) -> None:
    put(log, 1, 2)
    end(log, 2)
    assert sync(NAME, log.path.parent).sent == 2
    del server.runs[RUN], server.rows[RUN]
    log.path.with_name(NOTE_FILE).unlink()
    assert sync(NAME, log.path.parent).sent == 2
    assert server.steps(RUN) == [1, 2]


def test_a_folder_named_from_here_is_sent(
    log: EventLog, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``runs`` is relative unless REPRO_RUNS says otherwise."""
    put(log, 1)
    end(log, 1)
    monkeypatch.chdir(log.path.parent.parent)
    assert sync(NAME, Path(log.path.parent.name)).state == "complete"
    assert server.steps(RUN) == [1]


def test_a_server_that_does_not_take_it_is_said(
    log: EventLog, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(log, 1)
    end(log, 1)
    server.fail(401)
    result = sync(NAME, log.path.parent)
    assert (result.state, result.sent) == ("missing", 0)
    assert "W&B did not accept it; see " in result.line
    assert "W&B: " in log.path.with_name("mirror.log").read_text()
    server.recover()
    server.mood = 200
    monkeypatch.setattr(syncing, "PATIENCE_S", 0.01)
    assert sync(NAME, log.path.parent).state == "missing", "the time is up"


def test_a_run_that_was_killed_long_ago_is_sent_as_failed(log: EventLog, server: WandbServer) -> None:
    lines = encode("state", 0, {"state": "starting", **FIRST}, 1000) + encode(
        "train", 1, {"train/lr": 1.0}, 1000
    )
    log.path.write_bytes(lines)
    assert sync(NAME, log.path.parent).state == "complete"
    assert server.exits == {RUN: 1}


def test_runs_without_rows_and_runs_without_wandb_wait_for_nothing(log: EventLog, tmp_path: Path) -> None:
    assert not waits(log.path.parent), "no rows"
    put(log, 1)
    assert waits(log.path.parent)
    other = EventLog(tmp_path / "other")
    other.begin(b"", 0, {**FIRST, "wandb": "disabled"})
    put(other, 1)
    assert not waits(other.path.parent)
    assert not waits(tmp_path)
    (tmp_path / NOTE_FILE).write_text('{"url": "u", "rows": 3, "bytes": 10}')
    assert not waits(tmp_path), "its events are gone"


@pytest.mark.parametrize("damage", ["no start", "no file", "no folder"])
def test_a_damaged_folder_is_one_line(log: EventLog, damage: str) -> None:
    put(log, 1)
    end(log, 1)
    folder = log.path.parent
    if damage == "no start":
        log.path.write_bytes(encode("train", 1, {"train/lr": 1.0}))
    else:
        log.path.unlink()
    if damage == "no folder":
        folder.rmdir()
    result = sync(NAME, folder)
    assert (result.state, result.line) == (
        "missing",
        f"{NAME}: not sent: its events cannot be read; restore or remove {folder}",
    )


def test_a_folder_that_vanishes_meanwhile_is_one_line(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    put(log, 1)
    state = {"state": "done"}
    monkeypatch.setattr(syncing, "status", lambda folder: log.path.unlink() or state)
    assert sync(NAME, log.path.parent).why == f"cannot read {log.path.parent}: No such file or directory"


def test_watching_follows_a_run_until_it_ends(
    log: EventLog, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    displayed: list[Synced] = []
    states: list[list[int]] = []

    def pause(_: float) -> None:
        states.append(server.steps(RUN))
        if len(states) == 1:
            put(log, 3)
        elif len(states) == 2:
            end(log, 3)
        elif len(states) == 3:
            raise KeyboardInterrupt

    put(log, 1, 2)
    monkeypatch.setattr(syncing, "time", SimpleNamespace(sleep=pause))
    watch(lambda: {NAME: log.path.parent}, 5, displayed.append)
    assert states == [[1, 2], [1, 2, 3], [1, 2, 3]]
    assert [(one.state, one.sent) for one in displayed] == [("complete", 2), ("complete", 1)]
    assert server.exits == {RUN: 0}


def test_with_the_default_folder_the_command_sends(
    log: EventLog, server: WandbServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(log, 1)
    end(log, 1)
    folder = tmp_path / "project" / "runs" / NAME
    folder.parent.mkdir(parents=True)
    (tmp_path / "project" / "configs").mkdir()
    log.path.parent.rename(folder)
    env = {name: value for name, value in environment().items() if not name.startswith("REPRO_")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "repro", "sync"], cwd=tmp_path / "project", env=env,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{NAME}: 1 of 1 rows sent, complete\n"), done.stderr
    assert server.steps(RUN) == [1]
