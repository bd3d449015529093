"""W&B's real client against a server on the loopback. No test leaves this machine."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb.util import get_core_path

from repro.tracking import client
from repro.tracking.background import BackgroundLogger, Limits
from repro.tracking.sync import write_about
from tests.wandb_server import WandbServer

KEY = "0123456789abcdef" * 2 + "planted0"
RUN = "abcdef0123456789"
LIMITS = Limits(probe=1, start=15, hang=1)
SLOWEST_CALL_S = 0.5
FLUSH_S = 1.0  # how often W&B's service writes to disk what it was given
writes_soon = pytest.mark.skipif(
    "x_transaction_log_flush_interval" not in wandb.Settings.model_fields,
    reason="before 0.31 W&B's service writes to disk in blocks of 32 KiB only",
)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment that does not say which mode, and holds no key and no proxy."""
    for name in [name for name in os.environ if name.startswith("WANDB_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    return monkeypatch


@pytest.fixture
def server(bare: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    """A W&B server which the environment names, with a key."""
    made = WandbServer()
    bare.setenv("WANDB_BASE_URL", made.url)
    bare.setenv("WANDB_API_KEY", KEY)
    yield made
    made.vanish()


Make = Callable[..., BackgroundLogger]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes loggers of one run in one folder; those that a test leaves open are ended."""
    made: list[BackgroundLogger] = []

    def one(online: bool = False, limits: Limits = LIMITS, **more: Any) -> BackgroundLogger:
        folder = tmp_path / "run"
        (folder / "wandb").mkdir(parents=True, exist_ok=True)
        write_about(folder, RUN, "repro")
        made.append(BackgroundLogger(about(folder) | more, folder / "wandb", limits, online))
        return made[-1]

    yield one
    for logger in made:
        logger.close(0.1, 1)


def about(folder: Path) -> dict[str, Any]:
    """What W&B is told of a run."""
    return {
        "id": RUN, "name": "paper/recipe/cpu/s1", "dir": str(folder), "project": "repro", "group": "g",
        "job_type": "train", "tags": ["t"], "config": {"seed": 1}, "summaries": {"val/loss": "min"},
    }  # fmt: skip


def put(to: BackgroundLogger, *steps: int) -> float:
    """Logs a row for each step; returns the seconds that the slowest call took."""
    slowest = 0.0
    for step in steps:
        began = time.monotonic()
        to.log_metrics({"train/loss": 1 / (1 + step)}, step)
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def taken(by: BackgroundLogger) -> None:
    """Waits until W&B's client has been given every row."""
    until(lambda: by._calls.empty() and by._busy is None and not by._again)


def service() -> int:
    """The process id of W&B's service, once there is one."""
    until(lambda: len(client.services()) == 1)
    return client.services()[0]


def until(true: Callable[[], bool], within_s: float = 20) -> None:
    """Waits for something to hold; fails where it does not."""
    deadline, tick = time.monotonic() + within_s, threading.Event()
    while not true():
        assert time.monotonic() < deadline, "did not come about"
        tick.wait(0.02)


def fragments(folder: Path) -> list[Path]:
    """Fragments of runs below a folder, oldest first."""
    found = [path.parent for path in folder.rglob("run-*.wandb")]
    return sorted(found, key=lambda f: f.name.partition("run-")[2])


def records(fragment: Path) -> list[dict[str, Any]]:
    """All that a fragment holds, read with W&B's own reader."""
    (log,) = fragment.glob("run-*.wandb")
    if log.stat().st_size <= 7:  # the header alone
        return []
    # What `wandb leet inspect --json` starts, without Python's start; 0.30 has none, but that of 0.31 reads its files.
    command = [
        os.environ.get("REPRO_WANDB_READER") or get_core_path(),
        "leet",
        "inspect",
        "--no-observability",
        "--json",
        "--run-file",
        str(log),
    ]
    command.append(str(fragment.parent))
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return [json.loads(line) for line in said.splitlines()]


def rows_in(*found: Path) -> list[dict[str, Any]]:
    """Rows of fragments, in order."""
    return [said["history"]["item"] for one in found for said in records(one) if "history" in said]


def steps_in(*found: Path) -> list[int]:
    """``trainer/global_step`` of each row of fragments, in order."""
    return [row["trainer/global_step"] for row in rows_in(*found) if "trainer/global_step" in row]
