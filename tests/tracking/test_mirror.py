"""A W&B that fails in mid-run or at its end: training never waits, and no row is lost or doubled."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from repro.tracking import process, spool
from repro.tracking.mirror import Limits, Mirror
from tests.tracking.conftest import (
    RUN,
    SLOWEST_CALL_S,
    Servers,
    fragments,
    gone,
    put,
    put_until,
    records,
    service,
    steps_in,
    until,
)
from tests.wandb_server import GONE, HANG, WandbServer

Make = Callable[..., Mirror]
PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["KILL", "TERM"])
def test_a_service_that_dies_offline_is_replaced_and_each_row_is_there_once(
    mirror: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str], number: int
) -> None:
    """TERM is what Slurm sends to every process of a job that it preempts."""
    made = mirror("offline")
    assert made.start()
    put(made, *range(20))
    (fragment,) = fragments(tmp_path)
    until(lambda: process.times_on_disk(fragment) != set())
    put(made, *range(20, 40))  # of these none or few are on disk
    first = made.pid
    os.kill(service(made), number)
    after, slowest = put_until(made, lambda: made.pid != first, 40)
    put(made, *range(after, after + 20))
    made.close(20)
    assert slowest < SLOWEST_CALL_S
    assert capfd.readouterr().err.count("the rest of this run is logged offline\n") == 1
    assert len(fragments(tmp_path)) == 2
    assert sorted(steps_in(*fragments(tmp_path))) == list(range(after + 20))
    assert {f.name.rpartition("-")[2] for f in fragments(tmp_path)} == {RUN}


@pytest.mark.parametrize("whom", ["service", "process"])
def test_a_service_that_dies_online_goes_on_online_and_each_row_is_there_once(
    mirror: Make, server: WandbServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], whom: str
) -> None:
    made = mirror("online")
    assert made.start()
    put(made, *range(20))
    server.has(RUN, 7)
    first = made.pid
    assert first is not None
    os.kill(service(made) if whom == "service" else first, signal.SIGKILL)
    after, slowest = put_until(made, lambda: made.pid != first, 20)
    made.close(20)
    assert slowest < SLOWEST_CALL_S
    assert capfd.readouterr().err.count("the rest of this run is logged online again\n") == 1
    assert server.steps(RUN) == list(range(after))
    assert fragments(tmp_path, "offline") == []
    synced = [list(f.glob("*.synced")) != [] for f in fragments(tmp_path, "run")]
    assert synced == [True, True]


def test_a_service_that_dies_with_its_server_goes_offline(
    mirror: Make, server: WandbServer, tmp_path: Path
) -> None:
    made = mirror("online")
    assert made.start()
    put(made, *range(20))
    server.vanish()
    first = made.pid
    os.kill(service(made), signal.SIGKILL)
    after, _ = put_until(made, lambda: made.pid != first, 20)
    second = made.pid
    after, slowest = put_until(made, lambda: made.pid != second, after)
    made.close(20)
    assert slowest < SLOWEST_CALL_S
    assert sorted(steps_in(*fragments(tmp_path))) == list(range(after))
    assert steps_in(*fragments(tmp_path, "offline"))[-1] == after - 1


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_service_that_hangs_is_replaced_and_no_call_waits(
    mirror: Make, server: WandbServer, tmp_path: Path, mode: str
) -> None:
    """3000 rows are more than the sockets between hold."""
    made = mirror(mode)
    assert made.start()
    put(made, *range(10))
    first, stopped = made.pid, service(made)
    os.kill(stopped, signal.SIGSTOP)
    slow = put(made, *range(10, 3000))
    after, slowest = put_until(made, lambda: made.pid != first, 3000)
    made.close(20)
    assert max(slow, slowest) < SLOWEST_CALL_S
    until(lambda: gone(stopped))
    assert steps_in(*fragments(tmp_path, "offline"))[-1] == after - 1
    assert sorted(steps_in(*fragments(tmp_path))) == list(range(after))


def test_servers_that_fail_in_mid_run_leave_all_rows_on_disk(
    servers: Servers, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One answers 500, one 429, one nothing, one is gone; the ends of the four runs are waited for together."""
    limit_s, moods = 4.0, (500, 429, HANG, GONE)
    made: dict[int, tuple[Mirror, WandbServer]] = {}
    for mood in moods:
        one, server = made[mood] = servers(mood)
        assert one.start()
        put(one, *range(10))
        until(lambda server=server: len(server.runs) == 1)  # type: ignore[misc]
    for mood, (_, server) in made.items():
        server.fail(mood)
    slowest = max(put(one, *range(10, 500)) for one, _ in made.values())
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda pair: pair[0].close(limit_s), made.values()))
    assert time.monotonic() - began < limit_s + 2
    assert slowest < SLOWEST_CALL_S
    said = capfd.readouterr().err
    assert said.count("\n") == len(moods)
    assert said.count(
        "the server did not take all within 4 s; `repro sync paper/recipe/cpu/s1` sends the rest"
    ) == len(moods)
    for mood in moods:
        (fragment,) = fragments(tmp_path / str(mood))
        assert steps_in(fragment) == list(range(500)), mood
        assert not list(fragment.glob("*.synced"))


def test_a_server_that_recovers_gets_all(mirror: Make, server: WandbServer) -> None:
    made = mirror("online")
    assert made.start()
    server.mood = 500
    put(made, *range(50))
    until(lambda: spool.read_state(made.rows)["answered"] > 0)
    server.recover()
    put(made, *range(50, 60))
    made.close(30)
    assert server.steps(RUN) == list(range(60))


def test_a_job_that_is_killed_whole_loses_nothing(mirror: Make, tmp_path: Path) -> None:
    """Everything dies at some time after the last row; the next attempt brings what no fragment holds."""
    for attempt in range(3):
        made = mirror("offline")
        assert made.start()
        put(made, *range(10 * attempt, 10 * attempt + 10))
        if attempt == 0:
            (fragment,) = fragments(tmp_path)
            until(lambda fragment=fragment: len(process.times_on_disk(fragment)) == 10)  # type: ignore[misc]
        if attempt < 2:
            made.abandon()
    made.close(20)
    assert sorted(steps_in(*fragments(tmp_path))) == list(range(30))
    assert not list(tmp_path.rglob("rows-*"))


def test_a_killed_job_that_was_online_is_completed_online(mirror: Make, server: WandbServer) -> None:
    made = mirror("online")
    assert made.start()
    put(made, *range(10))
    server.has(RUN, 7)
    made.abandon()
    again = mirror("online")
    assert again.start()
    put(again, *range(10, 20))
    again.close(20)
    assert server.steps(RUN) == list(range(20))


def test_a_run_whose_process_is_killed_is_ended_by_the_mirror(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from repro.tracking.mirror import Mirror
from tests.tracking.conftest import LIMITS, about, put
folder = Path(sys.argv[1])
made = Mirror(folder / "wandb", about(folder), "offline", LIMITS)
assert made.start()
put(made, *range(10))
made.put("alert", {"title": "Stalled", "text": "nothing moved", "level": "WARN"}, dying=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    (rows,) = tmp_path.rglob("rows-*.jsonl")
    until(lambda: spool.read_state(rows)["phase"] == "done")
    (fragment,) = fragments(tmp_path)
    assert steps_in(fragment) == list(range(10))
    assert [r["exit"]["exit_code"] for r in records(fragment) if "exit" in r] == [1]
    assert [r["alert"]["title"] for r in records(fragment) if "alert" in r] == ["Stalled"]


def test_a_run_that_forgets_to_finish_is_finished_at_its_exit(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from repro.tracking.mirror import Mirror
from tests.tracking.conftest import LIMITS, about, put
folder = Path(sys.argv[1])
made = Mirror(folder / "wandb", about(folder), "offline", LIMITS)
assert made.start()
put(made, *range(10))
raise SystemExit(7)
"""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, timeout=60, check=False
    )
    assert done.returncode == 7
    assert not list(tmp_path.rglob("rows-*"))
    assert steps_in(*fragments(tmp_path)) == list(range(10))


def test_the_signals_of_a_job_do_not_end_the_mirror(mirror: Make, tmp_path: Path) -> None:
    made = mirror("offline")
    assert made.start()
    first = made.pid
    assert first is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        os.kill(first, number)
    put(made, *range(10))
    made.close(20)
    assert made.pid == first
    assert steps_in(*fragments(tmp_path)) == list(range(10))


def test_one_that_keeps_dying_is_let_go_with_its_rows_kept(
    mirror: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = mirror("offline", Limits(start=25, beat=0.05))
    assert made.start()
    step = 0
    for _ in range(4):
        until(lambda: spool.read_state(made.rows)["pid"] == made.pid)
        pid = made.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        step, _ = put_until(made, lambda pid=pid: made.lost or made.pid != pid, step)  # type: ignore[misc]
    assert made.lost
    said = capfd.readouterr().err
    assert said.count("off for the rest of this run") == 1
    assert "`repro sync paper/recipe/cpu/s1` sends what it has not got\n" in said
    assert put(made, *range(1000)) < 0.05
    began = time.monotonic()
    made.close(20)
    assert time.monotonic() - began < 1
    assert made.rows.exists()


def test_a_full_disk_is_one_line(mirror: Make, capfd: pytest.CaptureFixture[str]) -> None:
    made = mirror("offline")
    assert made.start()
    with open("/dev/full", "ab", buffering=0) as full:
        made._file = full
        put(made, 1, 2, 3)
    assert made.lost
    assert capfd.readouterr().err.count("OSError: [Errno 28] No space left on device") == 1


def test_fragments_of_three_attempts_sync_to_one_run_without_a_lost_or_doubled_step(
    mirror: Make, server: WandbServer, tmp_path: Path
) -> None:
    """One offline and preempted, one online whose server vanishes before its end, one offline to the end."""
    for mode, first, code in (("offline", 0, 75), ("online", 10, 75), ("offline", 20, 0)):
        made = mirror(mode)
        assert made.start()
        server.mood = 500 if mode == "online" else 200
        put(made, *range(first, first + 10))
        made.close(3.5, code)
    server.recover()
    found = [str(f) for f in fragments(tmp_path)]
    assert len(found) == 3
    command = [sys.executable, "-m", "wandb", "sync", "--include-online", *found]
    for _ in range(2):  # the second time there is nothing left to do
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert sorted(server.steps(RUN)) == list(range(30))
    assert list(server.runs) == [RUN]
