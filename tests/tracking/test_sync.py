"""What runs left behind comes to the server, each row once, however they and the server had failed."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.tracking import labels, process, spool
from repro.tracking import sync as syncing
from repro.tracking.fragments import BASE_FILE, fragments_of
from repro.tracking.joined import Plan
from repro.tracking.mirror import Mirror
from repro.tracking.server import Server, There
from repro.tracking.sync import Synced, planned, sync, verdict
from tests.tracking.conftest import RUN, about, fragments, put, until
from tests.wandb_server import WandbServer

Make = Callable[..., Mirror]
NAME = "paper/recipe/cpu/s1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the run that the fixture ``mirror`` makes mirrors of."""
    return tmp_path / "run"


def now(folder: Path, patience_s: float = 20.0) -> Synced:
    return sync(NAME, folder, Server(), patience_s)


def attempt(mirror: Make, mode: str, *steps: int, code: int = 0) -> None:
    """An attempt that ends well."""
    made = mirror(mode)
    assert made.start()
    put(made, *steps)
    made.close(20, code)


def test_offline_attempts_arrive_as_one_run_with_all_that_belongs_to_it_and_only_once(
    mirror: Make, server: WandbServer, folder: Path
) -> None:
    attempt(mirror, "offline", 0, 1, 2, code=75)
    made = mirror("offline")
    assert made.start()
    made.put("artifact", labels.artifact("dataset", "data of a: test", {"hash": "abc"}, used=True))
    put(made, 3)
    made.put("table", {"key": "samples", "columns": ["a"], "data": [["x"]], "step": 4})
    made.put("alert", {"title": "Not finite", "text": "step 2", "level": "ERROR"})
    made.put("artifact", labels.artifact("record", "record-1", {"a": 1}, files={"record.json": "{}"}))
    made.put("summary", {"test/bleu": 3.5, "published/test/bleu": 27.3})
    made.close(20)
    assert planned(NAME, folder / "wandb") == Synced(NAME, "planned", sent=5, held=5)
    assert now(folder).line == f"{NAME}: 5 rows sent, 5 there, complete"
    assert (server.steps(RUN), [row["_step"] for row in server.rows[RUN]]) == ([*range(5)], [*range(5)])
    assert (list(server.runs), server.exits) == ([RUN], {RUN: 0})
    data, record = server.artifacts["data-of-a-test"], server.artifacts["record-1"]
    assert (data["type"], data["used"], data["metadata"]) == ("dataset", True, {"hash": "abc"})
    assert (record["type"], record["used"], record["files"]["record.json"]) == ("record", False, b"{}")
    summary = server.summaries[RUN]
    assert (summary["trainer/global_step"], summary["test/bleu"], summary["published/test/bleu"]) == (
        4,
        3.5,
        27.3,
    )
    assert any("media/table/samples" in request for request in server.requests)
    asked = len(server.bodies)
    assert now(folder).line == f"{NAME}: nothing sent, 5 there, complete"
    assert len(server.bodies) == asked + 1, "one question"
    assert server.alerts == [(RUN, "Not finite", "step 2", "ERROR")]
    assert planned(NAME, folder / "wandb").line == f"{NAME}: nothing to send"


def test_of_an_attempt_that_was_cut_off_only_the_rest_is_sent(
    mirror: Make, server: WandbServer, folder: Path
) -> None:
    """``wandb sync`` would send rows 0 to 6 again. The last rows lie in no fragment."""
    made = mirror("online")
    assert made.start()
    put(made, *range(20))
    (fragment,) = fragments(folder)
    until(lambda: len(process.times_on_disk(fragment)) == 20)
    server.has(RUN, 7)
    made.abandon()
    said = [{"row": {"trainer/global_step": step}, "at": time.time() + step} for step in (20, 21)]
    rows = folder / "wandb" / "rows-7.jsonl"
    rows.write_bytes(b"".join(map(spool.line, [{"about": about(folder)}, *said])) + b'{"row": {"cut o')
    assert planned(NAME, folder / "wandb").sent == 22
    assert now(folder) == Synced(NAME, "complete", sent=15, there=22, held=22)
    assert server.steps(RUN) == list(range(22))
    assert server.exits == {RUN: 1}, "it never said that it ended"
    assert now(folder).sent == 0
    assert not list(folder.rglob("rows-*"))


def test_a_server_that_fails_while_it_is_sent_to_gets_the_rest_later(
    mirror: Make, server: WandbServer, folder: Path
) -> None:
    attempt(mirror, "offline", *range(10), code=75)
    server.limit = 4
    done = now(folder, patience_s=1.5)
    assert done == Synced(NAME, "missing", 4, 4, 10, "the server takes nothing more")
    assert server.steps(RUN) == [0, 1, 2, 3]
    assert [f.copied for f in fragments_of(folder / "wandb")] == [False, True]
    server.limit = None
    attempt(mirror, "online", 10, 11)  # meanwhile the run goes on, and ends
    assert now(folder) == Synced(NAME, "complete", sent=6, there=12, held=12)
    assert server.steps(RUN) == [0, 1, 2, 3, 10, 11, *range(4, 10)]
    assert server.exits == {RUN: 0}, "the older attempt does not have the last word"
    assert server.summaries[RUN]["trainer/global_step"] == 11
    assert not list(folder.rglob(BASE_FILE)), "copies are removed once they are of no use"


def test_a_run_that_runs_or_a_server_that_does_not_answer_is_one_line(
    mirror: Make, server: WandbServer, folder: Path
) -> None:
    attempt(mirror, "offline", 0)
    with syncing.held(folder) as free:
        assert free
        assert now(folder).line == f"{NAME}: skipped: it is still running"
    rows = folder / "wandb" / "rows-7.jsonl"
    rows.write_bytes(spool.line({"about": about(folder)}))
    said = {"phase": "on", "at": time.time(), "pid": 1, "boot": process.boot()}
    spool.state_file(rows).write_bytes(spool.line(said))
    assert now(folder).line.startswith(f"{NAME}: skipped: it has just ended, and its last rows may")
    for other in ({"at": time.time() - 100}, {"phase": "failed"}, {"pid": 2**22 + 1}):
        spool.state_file(rows).write_bytes(spool.line({**said, **other}))
        assert syncing.writing(folder / "wandb") == ""
    rows.unlink()
    server.mood = 500
    assert now(folder).line == f"{NAME}: nothing sent: {server.url} answers with error 500"
    server.vanish()
    assert f"{server.url} does not answer (" in now(folder).line
    assert server.rows == {}


def test_other_counts_than_that_of_the_files_are_not_complete() -> None:
    made = Plan([], {1.0, 2.0, 3.0}, {1.0, 2.0, 3.0}, set())
    said = {rows: verdict(NAME, made, There(True, rows, rows), 0, "").line for rows in (2, 3, 4)}
    assert said == {
        2: f"{NAME}: nothing sent, 2 of 3 there: it lost what it had taken",
        3: f"{NAME}: nothing sent, 3 there, complete",
        4: f"{NAME}: nothing sent, 4 there, but the files hold 3: "
        "some were sent by other means, or fragments were removed here",
    }
    assert verdict(NAME, made, There(True, 3, 3), 1, "W&B's client gave up").state == "missing"
