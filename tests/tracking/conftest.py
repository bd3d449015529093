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
from wandb.util import get_core_path

from repro.tracking.mirror import Limits, Mirror
from repro.tracking.process import children
from tests.wandb_server import WandbServer

KEY = "0123456789abcdef" * 2 + "planted0"
RUN = "abcdef0123456789"
# Generous where things work, short where they fail.
LIMITS = Limits(probe=1, init=1, online=15, start=25, hang=1, beat=0.2)
SLOWEST_CALL_S = 0.5  # a call may start a process; none waits for one


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
def mirror(tmp_path: Path) -> Iterator[Callable[..., Mirror]]:
    """Makes mirrors of one run in one folder; those that a test leaves open are ended."""
    made: list[Mirror] = []

    def make(mode: str, limits: Limits = LIMITS) -> Mirror:
        made.append(Mirror(tmp_path / "run" / "wandb", about(tmp_path / "run"), mode, limits))
        return made[-1]

    yield make
    for one in made:
        one.abandon()


Servers = Callable[[int], tuple[Mirror, WandbServer]]


@pytest.fixture
def servers(bare: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Servers]:
    """Makes an online mirror with a server and a folder of its own, named by how that is going to fail."""
    made: list[tuple[Mirror, WandbServer]] = []
    bare.setenv("WANDB_API_KEY", KEY)

    def make(mood: int) -> tuple[Mirror, WandbServer]:
        server = WandbServer()
        bare.setenv("WANDB_BASE_URL", server.url)  # the process that starts next reads it
        folder = tmp_path / str(mood)
        made.append((Mirror(folder / "wandb", about(folder), "online", LIMITS), server))
        return made[-1]

    yield make
    for mirror, server in made:
        mirror.abandon()
        server.vanish()


def about(folder: Path) -> dict[str, Any]:
    """What a mirror is told of a run."""
    return {
        "id": RUN, "name": "paper/recipe/cpu/s1", "dir": str(folder), "project": "repro", "group": "g",
        "tags": ["t"], "config": {"seed": 1}, "summaries": {"val/loss": "min"},
    }  # fmt: skip


def put(to: Mirror, *steps: int) -> float:
    """Logs a row for each step; returns the seconds that the slowest call took."""
    slowest = 0.0
    for step in steps:
        began = time.monotonic()
        to.put("row", {"train/loss": 1 / (1 + step), "trainer/global_step": step})
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def put_until(to: Mirror, true: Callable[[], bool], first: int, within_s: float = 20) -> tuple[int, float]:
    """Logs a row every 20 ms until something holds; returns the next step and the slowest call's seconds."""
    slowest, step = 0.0, first

    def once() -> bool:
        nonlocal slowest, step
        slowest, step = max(slowest, put(to, step)), step + 1
        return true()

    until(once, within_s)
    return step, slowest


def until(true: Callable[[], bool], within_s: float = 20) -> None:
    """Waits for something to hold; fails where it does not."""
    deadline, tick = time.monotonic() + within_s, threading.Event()
    while not true():
        assert time.monotonic() < deadline, "did not come about"
        tick.wait(0.02)


def gone(pid: int) -> bool:
    """Whether a process has ended, whether or not its new parent has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def service(of: Mirror) -> int:
    """The process id of W&B's service."""
    assert of.pid is not None
    (found,) = children(of.pid)
    return found


def fragments(folder: Path, kind: str = "") -> list[Path]:
    """Fragments of runs below a folder, oldest first: those whose name begins with ``kind``."""
    found = [path.parent for path in folder.rglob("run-*.wandb")]
    return sorted((f for f in found if f.name.startswith(kind)), key=lambda f: f.name.partition("run-")[2])


def records(fragment: Path) -> list[dict[str, Any]]:
    """All that a fragment holds, read with W&B's own reader."""
    (log,) = fragment.glob("run-*.wandb")
    if log.stat().st_size <= 7:  # the header alone
        return []
    # What `wandb leet inspect --json` starts, without Python's start.
    command = [get_core_path(), "leet", "inspect", "--no-observability", "--json", "--run-file", str(log)]
    command.append(str(fragment.parent))
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return [json.loads(line) for line in said.splitlines()]


def steps_in(*found: Path) -> list[int]:
    """``trainer/global_step`` of each row of fragments, in order."""
    rows = [said["history"]["item"] for fragment in found for said in records(fragment) if "history" in said]
    return [row["trainer/global_step"] for row in rows if "trainer/global_step" in row]
