"""A W&B that fails at the start: within seconds the run goes on, offline, and says so in one line."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from repro.tracking.mirror import Limits, Mirror
from repro.tracking.process import children
from tests.tracking.conftest import LIMITS, RUN, Servers, fragments, gone, put, records, steps_in, until
from tests.wandb_server import ENTITY, GONE, HANG, PROJECT, WandbServer

Make = Callable[..., Mirror]


def test_a_server_that_fails_makes_an_offline_run_of_the_same_id(
    servers: Servers, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One answers 500, one 429, one that the key is bad, one nothing, one refuses; five runs start together."""
    moods = (500, 429, 401, HANG, GONE)
    with ThreadPoolExecutor() as pool:
        starts = {}
        for mood in moods:
            made, server = servers(mood)
            server.fail(mood)
            starts[mood] = made, pool.submit(timed, made.start)
            until(lambda made=made: made.pid is not None)  # type: ignore[misc]
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("W&B: ") == said.err.count("; this run is logged offline\n") == len(moods)
    assert said.err.count("\n") == len(moods)
    for mood, (made, start) in starts.items():
        assert start.result()[0]
        assert start.result()[1] < 15
        assert made.url is None
        put(made, *range(10))
        made.close(20)
        (fragment,) = fragments(tmp_path / str(mood), "offline")
        assert fragment.name.endswith(f"-{RUN}")
        assert steps_in(fragment) == list(range(10)), mood


def timed(call: Callable[[], bool]) -> tuple[bool, float]:
    began = time.monotonic()
    return call(), time.monotonic() - began


def test_a_client_that_does_not_come_back_in_time_is_left_behind(
    mirror: Make, server: WandbServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The client itself is given longer than the run waits for it."""
    server.mood = HANG
    made = mirror("online", Limits(probe=1, init=60, online=2, start=25, hang=5, beat=0.2))
    began = time.monotonic()
    assert made.start()
    assert time.monotonic() - began < 12
    put(made, 1, 2)
    made.close(20)
    assert capfd.readouterr().err == "W&B: no answer in time; this run is logged offline\n"
    assert steps_in(*fragments(tmp_path, "offline")) == [1, 2]


def test_a_run_is_online_with_its_address_at_once(mirror: Make, server: WandbServer, tmp_path: Path) -> None:
    made = mirror("online")
    assert made.start()
    assert made.url == f"{server.url}/{ENTITY}/{PROJECT}/runs/{RUN}"
    put(made, *range(10))
    assert made.pid is not None
    family = [made.pid, *children(made.pid)]
    assert len(family) == 2
    made.close(20)
    assert server.steps(RUN) == list(range(10))
    assert server.exits == {RUN: 0}
    assert fragments(tmp_path, "offline") == []
    assert not list(tmp_path.rglob("rows-*"))
    until(lambda: all(map(gone, family)))
    command = [sys.executable, "-m", "wandb", "sync", "--include-online", *map(str, fragments(tmp_path))]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    assert server.steps(RUN) == list(range(10))  # what is there is not sent again


def test_a_run_that_starts_again_continues_its_own(mirror: Make, server: WandbServer) -> None:
    for attempt in range(2):
        made = mirror("online")
        assert made.start()
        put(made, *range(10 * attempt, 10 * attempt + 10))
        made.close(20, 75 if attempt < 1 else 0)
        assert server.exits == {RUN: 75 if attempt < 1 else 0}
    assert server.steps(RUN) == list(range(20))
    assert list(server.runs) == [RUN]
    assert any(b'"preempting":true' in body for body in server.bodies)


def test_a_service_that_does_not_start_is_one_line(
    mirror: Make, bare: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/sh\nexit 3\n")
    fails.chmod(0o755)
    bare.setattr("sys.executable", str(fails))
    made = mirror("offline")
    assert not made.start()
    said = capfd.readouterr().err
    assert said.startswith("W&B: off for the rest of this run: its process died")
    assert said.count("\n") == 1
    assert put(made, 1, 2, 3) < 0.1


def test_a_process_that_never_answers_delays_nothing_and_loses_nothing(
    mirror: Make, bare: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    hangs.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.executable", str(hangs))
        made = mirror("offline", Limits(start=1, hang=60))
        began = time.monotonic()
        assert made.start()
        put(made, *range(5))
        made.close(2)
        assert time.monotonic() - began < 8
    said = capfd.readouterr().err
    assert "no answer within 2 s" in said
    assert "`repro sync paper/recipe/cpu/s1` sends what it has not got\n" in said
    later = mirror("offline")  # the run's next attempt has them
    assert later.start()
    put(later, 5, 6)
    later.close(20)
    assert steps_in(*fragments(tmp_path)) == list(range(7))


def test_an_earlier_service_of_somebody_else_is_not_used(
    mirror: Make, bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare.setenv("WANDB_SERVICE", "3-1-unix-/nowhere/socket")
    made = mirror("offline", LIMITS)
    assert made.start()
    put(made, 1)
    made.close(20)
    assert os.environ["WANDB_SERVICE"] == "3-1-unix-/nowhere/socket"
    (fragment,) = fragments(tmp_path)
    assert steps_in(fragment) == [1]
    assert [r["exit"].get("exit_code", 0) for r in records(fragment) if "exit" in r] == [0]
