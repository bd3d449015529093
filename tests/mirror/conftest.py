"""W&B's real client against a server on the loopback. No test leaves this machine."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from repro.events import EventLog
from repro.mirror import command, environment
from tests.wandb_server import WandbServer

KEY = "0123456789abcdef" * 2 + "planted0"
NAME = "paper/recipe/cpu/s1-01234567"
RUN = "5cc87d9bc4127155"
FIRST = {
    "run": NAME, "max_steps": 100, "wandb": "online", "wandb_id": RUN, "group": "g", "tags": ["t"],
    "config": {"seed": 1},
}  # fmt: skip


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


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    """The events of a run that has started."""
    made = EventLog(tmp_path / "run")
    made.begin(b"", 0, FIRST)
    return made


def put(log: EventLog, *steps: int) -> None:
    """Writes a row for each step."""
    for step in steps:
        log.append("train", step, {"train/loss": 1 / (1 + step), "train/lr": 0.1})


def begin_again(log: EventLog, step: int) -> None:
    """A further attempt, which resumes from a checkpoint of a step."""
    lines = log.path.read_bytes().splitlines(True)
    last = max(
        i
        for i, line in enumerate(lines)
        if b'"kind": "train"' in line and f'"step": {step},'.encode() in line
    )
    log.begin(b"".join(lines[: last + 1]), step, FIRST)


def end(log: EventLog, step: int, state: str = "done") -> None:
    """The last event of an attempt."""
    log.append("state", step, {"state": state})


def once(folder: Path, *options: str) -> int:
    """Runs a mirror that sends what there is; its exit code."""
    return subprocess.run(
        command(folder, "--once", *options), env=environment(), timeout=120, check=False, capture_output=True
    ).returncode


def until(true: Callable[[], Any], within_s: float = 30) -> None:
    """Waits for something to hold; fails where it does not."""
    deadline, tick = time.monotonic() + within_s, threading.Event()
    while not true():
        assert time.monotonic() < deadline, "did not come about"
        tick.wait(0.02)
