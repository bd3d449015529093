"""Whole runs with W&B beside them: what is mirrored, what never leaves, and that W&B decides nothing."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from repro import mirror
from repro.events import EVENTS_FILE, curves, read
from repro.mirror.client import STEP, rows_of
from repro.record import thin
from tests.mirror.conftest import KEY, until
from tests.wandb_server import ENTITY, GONE, HANG, PROJECT, WandbServer
from tests.workshop import PAPER, TINY, Workshop, call, make_workshop


def one_record(workshop: Workshop) -> dict[str, Any]:
    (path,) = workshop.records()
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def folder_of(workshop: Workshop) -> Path:
    (path,) = workshop.runs.rglob(EVENTS_FILE)
    return path.parent


def _is_number(name: str, value: object) -> bool:
    return name.startswith(("train/", "val/", "test/")) and isinstance(value, int | float)


def started() -> subprocess.Popen[bytes]:
    """The mirror that the last run of this process started."""
    return mirror._STARTED[-1]


def nothing_of_the_machine(sent: bytes, root: Path) -> None:
    """Neither the run's place, nor the user, nor the host's name as a word."""
    assert str(root).encode() not in sent
    assert b"planted-user" not in sent
    assert str(Path(sys.executable).parent).encode() not in sent
    assert not re.search(rb'"' + re.escape(socket.gethostname().encode()) + rb'[".]', sent)


def test_a_run_is_on_the_server_as_in_its_events_and_nothing_of_the_machine_is(
    workshop: Workshop, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("USER", "LOGNAME", "USERNAME", "WANDB_USERNAME", "SLURM_JOB_USER"):
        monkeypatch.setenv(name, "planted-user")
    output = call("run", TINY, "--scale", "cpu")
    assert output.code == 0, output.err
    assert "W&B" not in output.err
    assert started().wait(60) == 0
    record, folder = one_record(workshop), folder_of(workshop)
    name = read(folder / EVENTS_FILE)[0]["wandb_id"]
    assert mirror.url(folder) == f"{server.url}/{ENTITY}/{PROJECT}/runs/{name}"
    messages = server.runs[name]
    assert (messages["displayName"], messages["groupName"]) == (record["run_id"], f"{TINY}/cpu")
    assert set(messages["tags"]) - {"dirty"} == {PAPER, "cpu", "judged"}
    events = read(folder / EVENTS_FILE)
    rows = server.rows[name]
    assert len(rows) == len(rows_of(events))
    there = {
        (row.get(STEP), name, value) for row in rows for name, value in row.items() if _is_number(name, value)
    }
    assert there == {(e["step"], k, v) for e in rows_of(events) for k, v in e.items() if _is_number(k, v)}
    names = {name.partition(".")[0] for row in rows for name in row}
    assert {"train/loss", "train/tokens_per_s", "val/nll", "test/bleu", "samples"} <= names
    (bleu,) = [m["value"] for m in record["metrics"] if m["name"] == "test/bleu"]
    assert server.summaries[name]["test/bleu"] == pytest.approx(bleu)
    assert server.exits == {name: 0}
    for body in server.bodies:
        if b'"storagePolicy"' not in body:  # W&B's manifests name the files of tables
            nothing_of_the_machine(body, workshop.root)
        assert b"planted-user" not in body
        assert KEY.encode() not in body
    for file in (p for p in workshop.root.rglob("*") if p.is_file()):
        assert KEY.encode() not in file.read_bytes(), file


def test_the_record_has_the_curves_of_the_events(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    before = len(mirror._STARTED)
    assert call("run", TINY, "--scale", "cpu").code == 0
    record, events = one_record(workshop), read(folder_of(workshop) / EVENTS_FILE)
    drawn = curves(events)
    assert set(record["curves"]) == set(drawn)
    assert record["curves"]["train/loss"] == [[s, float(f"{v:.6g}")] for s, v in thin(drawn["train/loss"])]
    assert record["wandb_url"] is None
    assert len(mirror._STARTED) == before
    assert {e["picture"] for e in events if "picture" in e} == {"attention"}
    assert (folder_of(workshop) / "attention.png").read_bytes()[:4] == b"\x89PNG"


FAILURES = (
    "500",
    "hang",
    "gone",
    "KILL",
    pytest.param("STOP", marks=pytest.mark.matrix),
)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> dict[str, Any]:
    """The record of a run that knows of no W&B."""
    made = make_workshop(tmp_path_factory.mktemp("alone") / "workshop", small_store)
    with pytest.MonkeyPatch.context() as patch:
        made.enter(patch)
        patch.setenv("WANDB_MODE", "disabled")
        assert call("run", TINY, "--scale", "cpu").code == 0
    return one_record(made)


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES)
def test_whatever_fails_training_reaches_the_same_weights_and_does_not_wait(
    workshop: Workshop,
    server: WandbServer,
    monkeypatch: pytest.MonkeyPatch,
    alone: dict[str, Any],
    failure: str,
) -> None:
    if failure in ("KILL", "STOP"):
        start = mirror.start

        def strike(folder: Path) -> "subprocess.Popen[bytes] | None":
            made = start(folder)
            assert made is not None
            made.send_signal(getattr(signal, f"SIG{failure}"))
            return made

        monkeypatch.setattr(mirror, "start", strike)
    else:
        server.fail({"500": 500, "hang": HANG, "gone": GONE}[failure])
    began = time.monotonic()
    output = call("run", TINY, "--scale", "cpu")
    took = time.monotonic() - began
    running = started().poll() is None
    os.killpg(started().pid, signal.SIGKILL) if running else None
    assert output.code == 0, output.err
    assert took < 60
    record = one_record(workshop)
    for key in ("checkpoint_sha256", "metrics"):
        assert record[key] == alone[key]
    assert "W&B" not in output.err
    assert "Traceback" not in output.err


def test_a_run_in_a_job_waits_for_its_mirror_within_a_limit(
    workshop: Workshop, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm ends all processes of a step with its ranks."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NAME", "interactive")  # Lightning then starts the ranks itself
    assert call("run", TINY, "--scale", "cpu").code == 0
    assert started().poll() == 0
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    began = time.monotonic()
    mirror.wait(child, 0.1)
    assert time.monotonic() - began < 5
    child.kill()
    until(lambda: child.poll() is not None)
