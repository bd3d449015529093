"""One run on the server, each row once, whatever happened to the run, the mirror, its service and the server."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro import mirror
from repro.events import EventLog
from repro.mirror import client, note_of
from repro.mirror.client import STEP, rows_of
from tests.mirror.conftest import FIRST, NAME, RUN, begin_again, end, once, put, until
from tests.wandb_server import ENTITY, GONE, PROJECT, WandbServer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def following(log: EventLog, server: WandbServer) -> Iterator[subprocess.Popen[bytes]]:
    """A mirror that follows the run of this process."""
    made = mirror.start(log.path.parent)
    assert made is not None
    yield made
    if made.poll() is None:
        os.killpg(made.pid, signal.SIGKILL)
        made.wait()


def test_published_numbers_stand_in_the_rows_of_validations(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []
    run = SimpleNamespace(log=rows.append)
    for kind in ("train", "val"):
        event = {"t": 1.0, "step": 5, "kind": kind, f"{kind}/ppl": 24.5}
        client.log(run, event, tmp_path, {"test/ppl": 24.0})  # type: ignore[arg-type]
    assert ["published/test/ppl" in row for row in rows] == [False, True]
    assert rows[1] == {"val/ppl": 24.5, "published/test/ppl": 24.0, STEP: 5, "_timestamp": 1.0}


def test_rows_are_on_the_server_while_the_run_goes_on(
    log: EventLog, server: WandbServer, following: subprocess.Popen[bytes]
) -> None:
    put(log, *range(1, 11))
    assert server.wait_until(lambda: len(server.rows.get(RUN, [])) == 10, 60)
    assert mirror.url(log.path.parent) == f"{server.url}/{ENTITY}/{PROJECT}/runs/{RUN}"
    put(log, 11)
    log.append("note", 11, {"summary": {"test/bleu": 27.25, "published/test/bleu": 27.3}})
    end(log, 11)
    assert following.wait(60) == 0
    assert server.steps(RUN) == list(range(1, 12))
    assert server.exits == {RUN: 0}
    assert (server.summaries[RUN]["test/bleu"], server.summaries[RUN]["published/test/bleu"]) == (27.25, 27.3)
    assert [row["_timestamp"] for row in server.rows[RUN]] == [
        pytest.approx(event["t"], abs=1) for event in rows_of(list(map(dict, _events(log))))
    ]
    assert note_of(log.path.parent)["rows"] == 11


def test_the_load_of_the_run_and_of_its_machine_is_sent_while_it_goes_on(
    log: EventLog, server: WandbServer, bare: pytest.MonkeyPatch
) -> None:
    """It is this process that is measured, which trains, not the mirror; a mirror of what is over measures nothing."""
    bare.setenv("WANDB_X_STATS_SAMPLING_INTERVAL", "0.5")  # seconds; 15 else
    size = 512  # MiB by which this process is larger than the mirror
    ballast = b"x" * (size * 2**20)
    put(log, 1)
    made = mirror.start(log.path.parent)
    assert made is not None
    assert server.wait_until(lambda: len(server.systems.get(RUN, [])) >= 2, 60)
    end(log, 1)
    assert made.wait(60) == 0
    sample = server.systems[RUN][-1]
    assert {"system.cpu", "system.memory_percent", "system.proc.memory.rssMB", "_timestamp"} <= sample.keys()
    assert sample["system.proc.memory.rssMB"] > size
    del ballast
    before = len(server.systems[RUN])
    assert once(log.path.parent) == 0
    assert len(server.systems[RUN]) == before


def _events(log: EventLog) -> list[dict[str, object]]:
    from repro.events import read

    return read(log.path)


def test_three_requeues_are_one_run_and_each_row_is_there_once(log: EventLog, server: WandbServer) -> None:
    """Each attempt resumes before rows that were sent; the rows that are made again are not sent again."""
    folder = log.path.parent
    for first, last, resumed_from in ((1, 5, 3), (4, 9, 6), (7, 12, 12), (13, 14, None)):
        put(log, *range(first, last + 1))
        end(log, last, "done" if resumed_from is None else "requeue")
        assert once(folder) == 0
        if resumed_from is not None:
            assert server.exits[RUN] == 75
            begin_again(log, resumed_from)
    rows = server.rows[RUN]
    assert list(server.runs) == [RUN]
    assert server.steps(RUN) == list(range(1, 15)), "each once, in order"
    assert [row["_step"] for row in rows] == list(range(14))
    assert [row["train/loss"] for row in rows] == [pytest.approx(1 / (1 + step)) for step in range(1, 15)]
    assert server.exits == {RUN: 0}
    assert once(folder) == 0
    assert server.rows[RUN] == rows, "nothing is sent twice"


@pytest.mark.parametrize("what", ["mirror", "service"])
def test_a_mirror_that_is_killed_leaves_no_gap(
    log: EventLog, server: WandbServer, following: subprocess.Popen[bytes], what: str
) -> None:
    put(log, *range(1, 6))
    assert server.wait_until(lambda: len(server.rows.get(RUN, [])) == 5, 60)
    if what == "mirror":
        following.kill()
        following.wait()
    else:
        (service,) = [pid for pid in children(following.pid) if "wandb-core" in command_of(pid)]
        os.kill(service, signal.SIGKILL)
    put(log, *range(6, 9))
    end(log, 8, "requeue")
    following.wait(90)
    begin_again(log, 8)
    put(log, 9)
    end(log, 9)
    assert once(log.path.parent) == 0
    assert server.steps(RUN) == list(range(1, 10))


def children(pid: int) -> list[int]:
    return [
        int(word)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for word in path.read_text().split()
    ]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize("fault", ["limit", "500", "401", "gone"])
def test_a_server_that_fails_gets_it_later(
    log: EventLog, server: WandbServer, bare: pytest.MonkeyPatch, tmp_path: Path, fault: str
) -> None:
    """Rows that it had taken do not come again."""
    put(log, *range(1, 11))
    end(log, 10)
    brief = tmp_path / "brief"  # imported by the mirror as it starts
    brief.mkdir()
    (brief / "sitecustomize.py").write_text("import repro.mirror as m\nm.FINISH_S = 3.0\n")
    if fault == "limit":
        server.limit = 4
    else:
        server.fail({"500": 500, "401": 401, "gone": GONE}[fault])
    with bare.context() as patch:
        patch.setenv("PYTHONPATH", str(brief))
        patch.setenv("WANDB_INIT_TIMEOUT", "3")
        assert once(log.path.parent) == 1
    assert note_of(log.path.parent).get("rows") is None
    if fault == "gone":
        return
    server.limit = None
    server.recover()
    assert once(log.path.parent) == 0
    assert server.steps(RUN) == list(range(1, 11))


def test_a_run_that_fails_is_an_alert_and_ends_as_failed(
    log: EventLog, server: WandbServer, following: subprocess.Popen[bytes]
) -> None:
    put(log, 1)
    log.fail("step 2 is not finite")
    assert following.wait(60) == 0
    assert server.exits == {RUN: 1}
    assert [alert[1:3] for alert in server.alerts] == [("Failed", "step 2 is not finite")]


def test_a_run_that_is_not_over_stays_so(log: EventLog, server: WandbServer) -> None:
    put(log, 1)
    assert once(log.path.parent, "--running") == 0
    assert (server.steps(RUN), server.exits) == ([1], {})


@pytest.mark.parametrize("early", [True, False], ids=["while it starts", "later"])
def test_it_ends_after_the_process_that_started_it(log: EventLog, server: WandbServer, early: bool) -> None:
    """That process may die while the mirror is still importing."""
    script = f"""
import os, signal, sys
from pathlib import Path
from repro import mirror
print(mirror.start(Path({str(log.path.parent)!r})).pid, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    put(log, 1)
    assert early or server.wait_until(lambda: server.steps(RUN) == [1], 60)
    put(log, 2)
    parent.communicate(b"\n")
    until(
        lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2],
        60,
    )
    assert (server.steps(RUN), server.exits) == ([1, 2], {RUN: 1})


def test_two_mirrors_of_one_run_do_not_both_send(
    log: EventLog, server: WandbServer, following: subprocess.Popen[bytes]
) -> None:
    put(log, 1)
    assert server.wait_until(lambda: server.steps(RUN) == [1], 60)
    assert once(log.path.parent) == 3


def test_pictures_and_tables_are_rows(log: EventLog, server: WandbServer) -> None:
    from PIL import Image

    Image.new("RGB", (2, 2)).save(log.path.with_name("drawn.png"))
    put(log, 1)
    log.append("note", 1, {"table": "samples", "columns": ["a"], "rows": [["x"]]})
    for name in ("drawn", "lost"):
        log.append("note", 1, {"picture": name, "file": f"{name}.png", "caption": NAME})
    end(log, 1)
    assert once(log.path.parent) == 0
    _, table, picture, _ = server.rows[RUN]
    assert {key for key in table if key.startswith("samples")}
    assert {key for key in picture if key.startswith("drawn")}
    assert len(rows_of(_events(log))) == 4


def test_no_mirror_where_none_is_wanted(tmp_path: Path, bare: pytest.MonkeyPatch) -> None:
    assert mirror.start(tmp_path) is None, "no key"
    bare.setenv("WANDB_API_KEY", "x" * 40)
    for mode in ("offline", "disabled"):
        bare.setenv("WANDB_MODE", mode)
        assert mirror.start(tmp_path) is None
    bare.setenv("WANDB_MODE", "online")
    bare.setitem(sys.modules, "wandb", None)
    assert mirror.start(tmp_path) is None, "not installed"
    assert list(tmp_path.iterdir()) == []
    assert client.is_over([{"kind": "state", **FIRST}]) is False
