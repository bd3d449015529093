"""What runs left behind comes to the server as one run, however they and the server had failed."""

import errno
import functools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.tracking import sync as syncing
from repro.tracking.api import connect
from repro.tracking.fragments import fragments_of, is_synced
from repro.tracking.sync import Synced, sync
from tests.tracking.conftest import FLUSH_S, RUN, Make, fragments, put, service, taken, until, writes_soon
from tests.wandb_server import GONE, WandbServer

NAME = "paper/recipe/cpu/s1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the run that the fixture ``make`` makes loggers of."""
    return tmp_path / "run"


@pytest.fixture
def attempt(make: Make, folder: Path) -> Callable[..., None]:
    """Makes an attempt of the run that logs a row for each step, in a fragment with a second of its own."""

    def one(*steps: int, code: int = 0) -> None:
        made = make()
        put(made, *steps)
        made.log_summary({"best": steps[-1]})
        made.close(20, code)
        name(folder)

    return one


def name(folder: Path) -> None:
    """Names the newest fragment as if a second lay between any two."""
    found = fragments(folder)
    found[-1].rename(found[-1].with_name(f"offline-run-20260101_00000{len(found)}-{RUN}"))


def record(folder: Path, **metrics: float) -> None:
    told = [{"name": name.replace("_", "/"), "value": value} for name, value in metrics.items()]
    (folder / "record.json").write_text(json.dumps({"metrics": told}))


def now(folder: Path, patience_s: float = 30.0) -> Synced:
    return sync(NAME, folder, connect(), patience_s)


@writes_soon
def test_three_fragments_of_one_id_become_one_run_with_every_step_and_the_records_summary(
    attempt: Callable[..., None], make: Make, server: WandbServer, folder: Path
) -> None:
    """Preempted, killed with its service, and resumed two steps back: no fragment replaces another."""
    attempt(0, 1, 2, code=75)
    made = make()
    put(made, 3, 4, 5)
    taken(made)
    until(lambda: len(fragments_of(folder)) == 2, 10 + 2 * FLUSH_S)  # written
    os.kill(service(), signal.SIGKILL)
    made.close(0)
    name(folder)
    attempt(4, 5, 6, 7)
    record(folder, test_bleu=27.25)
    held = 3
    assert sync(NAME, folder, None) == Synced(NAME, "planned", held, held)
    assert now(folder) == Synced(NAME, "complete", held, held)
    rows = server.rows[RUN]
    assert (list(server.runs), set(server.steps(RUN))) == ([RUN], set(range(8)))
    assert [row["_step"] for row in rows] == list(range(len(rows))), "each behind the last"
    assert {row["trainer/global_step"]: row["train/loss"] for row in rows} == {
        step: 1 / (1 + step) for step in range(8)
    }
    assert server.exits == {RUN: 0}
    assert (server.summaries[RUN]["test/bleu"], server.summaries[RUN]["best"]) == (27.25, 7)
    assert now(folder) == Synced(NAME, "complete", 0, held)
    assert server.rows[RUN] == rows, "nothing is sent twice"


def test_fragments_are_sent_in_the_order_in_which_they_were_begun_and_none_overtakes_another(
    attempt: Callable[..., None], server: WandbServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in (0, 2, 4):
        attempt(first, first + 1)
    tried: list[str] = []

    def upload(log: Path, patience_s: float) -> str:
        tried.append(log.parent.name[-18])
        if len(tried) == 2:
            return "failed"
        log.with_name(f"{log.name}.synced").touch()
        return ""

    monkeypatch.setattr(syncing, "upload", upload)
    assert now(folder) == Synced(NAME, "missing", 1, 3, "failed")
    assert now(folder) == Synced(NAME, "complete", 2, 3)
    assert tried == ["1", "2", "2", "3"]


@pytest.mark.parametrize("fault", ["limit", "500", "401", "gone"])
def test_a_server_that_fails_meanwhile_gets_it_later(
    attempt: Callable[..., None], server: WandbServer, folder: Path, fault: str
) -> None:
    """Rows that it had taken come again, with the same step."""
    attempt(*range(10))
    api = connect()
    if fault == "limit":
        server.limit = 4
    else:
        server.fail({"500": 500, "401": 401, "gone": GONE}[fault])
    done = sync(NAME, folder, api, 3.0)
    assert (done.state, done.sent, done.held) == ("missing", 0, 1)
    assert RUN in done.why
    assert not is_synced(fragments_of(folder)[0])
    if fault == "gone":
        return
    server.limit = None
    server.recover()
    assert now(folder).state == "complete"
    assert set(server.steps(RUN)) == set(range(10))


def test_a_summary_that_is_not_set_is_set_the_next_time(
    attempt: Callable[..., None], server: WandbServer, folder: Path
) -> None:
    attempt(0)
    (folder / "record.json").write_text("{")
    assert now(folder).state == "missing"
    record(folder, test_bleu=1.5)
    assert now(folder) == Synced(NAME, "complete", 0, 1)
    assert server.summaries[RUN]["test/bleu"] == 1.5


def test_a_run_that_runs_is_skipped_and_a_fragment_that_holds_nothing_does_not_count(folder: Path) -> None:
    empty = folder / "wandb" / f"offline-run-20260101_000000-{RUN}"
    empty.mkdir(parents=True)
    (empty / f"run-{RUN}.wandb").write_bytes(b"0123456")
    assert sync(NAME, folder, None) == Synced(NAME, "planned")
    with syncing.held(folder) as free:
        assert free
        assert sync(NAME, folder, None).state == "running"


def test_a_folder_without_locks_is_no_folder_of_a_run_that_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()

    def refuse(code: int, *_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", functools.partial(refuse, errno.ENOLCK))
    assert sync(NAME, folder, None) == Synced(NAME, "planned")
    monkeypatch.setattr("fcntl.flock", functools.partial(refuse, errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        sync(NAME, folder, None)
