"""The logger that a run has: no call waits, and what reached the disk stays, whatever W&B's service does."""

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from repro.pictures import Picture, sheet
from repro.tracking import client, labels
from repro.tracking.background import ATTEMPTS, LAST_S, Limits
from tests.tracking.conftest import (
    FLUSH_S,
    RUN,
    SLOWEST_CALL_S,
    Make,
    fragments,
    put,
    records,
    rows_in,
    service,
    steps_in,
    taken,
    until,
    writes_soon,
)


def test_all_that_a_run_says_is_in_its_fragment(make: Make, tmp_path: Path) -> None:
    made = make()
    put(made, 0, 1, 2)
    made.log_table("samples", columns=["a"], data=[["x"], ["y"]], step=3)
    made.log_picture("drawn", sheet([Picture(2, 3, 1, bytes(range(6)))], 3), "caption", 4)
    made.log_picture("none", b"GIF89a")
    made.log_metrics({"a": torch.tensor(2.5)}, 5)  # type: ignore[dict-item]
    made.log_summary({"test/bleu": torch.tensor(27.25)})
    made.log_artifact(labels.artifact("record", "record-1", {"x": 1}, {"record.json": "{}"}))
    made.alert("t" * 100, "a\nb\t" + "c" * 1000, "ERROR")
    made.close(20, 75)
    put(made, 6)  # after the end: nothing
    (fragment,) = fragments(tmp_path)
    found, rows = records(fragment), rows_in(fragment)
    assert fragment.name == f"offline-run-{fragment.name.split('-')[2]}-{RUN}"
    assert steps_in(fragment) == [0, 1, 2, 3, 4, 5]
    assert [row["train/loss"] for row in rows[:3]] == [1, 1 / 2, 1 / 3]
    assert rows[3]["samples.nrows"] == 2
    assert rows[4]["drawn.count"] == 1
    assert rows[5]["a"] == 2.5
    assert [r["exit"]["exit_code"] for r in found if "exit" in r] == [75]
    (alert,) = [r["alert"] for r in found if "alert" in r]
    assert (len(alert["title"]), alert["text"][:4], len(alert["text"])) == (64, "a b ", 500)
    assert {"record", "run_table"} == {r["artifact"]["type"] for r in found if "artifact" in r}
    text = str([r for r in found if "summary" in r])
    assert "27.25" in text
    assert client.services() == []


def test_it_is_offline_and_leaves_the_environment_as_it_was(
    make: Make, bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also beside a service of somebody else, which is not used."""
    bare.setenv("WANDB_MODE", "online")
    bare.setenv("WANDB_SERVICE", "3-1-unix-/nowhere/socket")
    before = dict(os.environ)
    made = make()
    put(made, 1)
    made.close(20)
    assert dict(os.environ) == before
    assert steps_in(*fragments(tmp_path)) == [1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["KILL", "TERM"])
def test_a_service_that_dies_is_replaced_and_no_step_is_missing(
    make: Make, tmp_path: Path, number: int
) -> None:
    """TERM is what Slurm sends to every process of a job that it preempts."""
    made = make()
    put(made, *range(20))
    taken(made)
    first = service()
    os.kill(first, number)
    until(lambda: first not in client.services())
    put(made, *range(20, 40))
    made.close(20)
    found = fragments(tmp_path)
    assert len(found) == 2
    assert {one.name.rpartition("-")[2] for one in found} == {RUN}
    assert set(steps_in(*found)) == set(range(40))
    assert all(row["train/loss"] == 1 / (1 + row["trainer/global_step"]) for row in rows_in(*found))


def test_an_import_does_not_wait_for_a_service_that_died(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "catboost.py").touch()  # one of the packages whose import W&B notes
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(sys.modules, "catboost", raising=False)
    made = make()
    put(made, 0)
    taken(made)
    os.kill(service(), signal.SIGKILL)
    until(lambda: not client.services())
    importlib.import_module("catboost")
    monkeypatch.delitem(sys.modules, "catboost")
    put(made, 1)
    made.close(20)
    assert {step for fragment in fragments(tmp_path) for step in steps_in(fragment)} == {0, 1}


def test_a_service_that_hangs_is_replaced_and_no_call_waits(make: Make, tmp_path: Path) -> None:
    """3000 rows are more than the sockets between hold."""
    made = make()
    put(made, *range(10))
    taken(made)
    first = service()
    os.kill(first, signal.SIGSTOP)
    slowest, last = put(made, *range(10, 3000)), 3000

    def replaced() -> bool:
        nonlocal slowest, last
        slowest, last = max(slowest, put(made, last)), last + 1
        return first not in client.services()

    until(replaced)
    made.close(20)
    assert slowest < SLOWEST_CALL_S
    assert set(steps_in(*fragments(tmp_path))) == set(range(last))


def test_a_call_that_returns_meanwhile_is_no_call_that_hangs(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make()
    put(made, 0)
    taken(made)
    seen = iter([0.0])  # then None, as of a thread that sets it between two looks
    busy = property(lambda _: next(seen, None), lambda _, value: None)
    monkeypatch.setattr(type(made), "_busy", busy, raising=False)
    monkeypatch.setattr(client, "kill_service", lambda: None)
    put(made, 1)


def test_a_child_whose_name_is_no_text_is_no_service() -> None:
    other = subprocess.Popen([b"\xff", "60"], executable="/bin/sleep")
    try:
        assert client.services() == []
    finally:
        other.kill()
        other.wait()


@writes_soon
@pytest.mark.parametrize("when", ["start", "end"])
def test_a_service_that_is_stopped_holds_up_nothing(
    make: Make, tmp_path: Path, when: str, capfd: pytest.CaptureFixture[str]
) -> None:
    made = make()
    if when == "end":
        put(made, 1, 2)
        taken(made)
        time.sleep(1.5 * FLUSH_S)  # until it has written them
    stopped = service()
    os.kill(stopped, signal.SIGSTOP)
    assert put(made, 3) < SLOWEST_CALL_S
    began = time.monotonic()
    made.close(0.5)
    assert time.monotonic() - began < 0.5 + LAST_S
    assert made.lost
    assert made._thread.is_alive() is False
    until(lambda: stopped not in client.services())
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "repro sync paper/recipe/cpu/s1" in said
    assert when == "start" or set(steps_in(*fragments(tmp_path))) >= {1, 2}


def test_one_that_keeps_dying_is_let_go(
    make: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tries: list[int] = []

    def fails(_: object) -> None:
        tries.append(1)
        raise ConnectionResetError("gone")

    monkeypatch.setattr(client, "start", fails)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    made = make()
    until(lambda: made.lost)
    assert len(tries) == ATTEMPTS
    assert put(made, 1) < SLOWEST_CALL_S
    made.close(1)
    assert capfd.readouterr().err.count("ConnectionResetError: gone") == 1


def test_signals_of_a_job_that_goes_on_do_not_end_the_service(make: Make, tmp_path: Path) -> None:
    made = make()
    put(made, 1)
    taken(made)
    first = service()
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        os.kill(first, number)
    put(made, 2)
    made.close(20)
    (fragment,) = fragments(tmp_path)
    assert steps_in(fragment) == [1, 2]


def test_a_value_that_wandb_refuses_is_left_out(make: Make, tmp_path: Path) -> None:
    made = make(limits=Limits())
    made.log_artifact({"name": "a/b", "type": "record", "metadata": {}, "files": {}})
    made.log_artifact({"name": "no type"})
    put(made, 1)
    made.close(20)
    assert steps_in(*fragments(tmp_path)) == [1]


def test_a_run_of_somebody_else_is_left_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wandb.run", object())
    monkeypatch.setattr("repro.tracking.background.ATTEMPTS", 1)
    made = make()
    until(lambda: made.lost)
