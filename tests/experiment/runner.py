"""Asks the program of forks.py for attempts, and knows what uninterrupted runs leave behind."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from repro.events import EVENTS_FILE, curves
from repro.events import read as read_events
from repro.paths import PROJECT
from repro.training.checkpoints import checkpoint_path, read
from tests.workshop import TINY, Workshop, make_workshop

TIMED = "tokens_per_s"  # what no resume can repeat
# Checkpoints hold their positions by these names.
DATA = ("TranslationData", "EchoData", "BitMemoryData", "GeneratedDialogueData")


class Forks:
    """The program forks.py, which has imported everything and forks the ranks of one attempt after another."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "WANDB_MODE": "disabled"}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.experiment.forks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=PROJECT, env=env, start_new_session=True,
        )  # fmt: skip

    def ask(
        self, program: str, workshop: Workshop, ranks: int, env: dict[str, str], **more: Any
    ) -> list[int]:
        """Has ranks forked; the exit code of each, negative for a signal.

        Args:
            program: what they do, one of :data:`tests.experiment.forks.PROGRAMS`.
            workshop: the project they run in; what they say goes to the file ``log`` there.
            ranks: processes.
            env: further variables.
            more: what the program wants to know.
        """
        folders = ("configs", "results", "runs", "data")
        own = {f"REPRO_{n.upper()}": str(getattr(workshop, n)) for n in folders} | env
        asked = {"program": program, "ranks": ranks, "env": own, "log": str(workshop.root / "log"), **more}
        self.process = self.process or self.start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            codes: list[int] = json.loads(self.process.stdout.readline())
        except (
            BaseException
        ):  # ranks that hang until the test's time is over shall not answer the next question
            self.close()
            raise
        return codes

    def close(self) -> None:
        """Ends the program and all ranks."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
        self.process = None


class Runner:
    """Attempts at one experiment, and the uninterrupted runs that were made of it.

    Args:
        forks: runs them.
        root: for the uninterrupted runs.
        data: the data folder.
        experiment: what is run, one of :data:`tests.experiment.interruptions.RECIPES`.
    """

    def __init__(self, forks: Forks, root: Path, data: Path, experiment: str = TINY) -> None:
        self.forks = forks
        self.root = root
        self.data = data
        self.experiment = experiment

    def attempt(
        self,
        workshop: Workshop,
        ranks: int,
        workers: int = 0,
        point: str = "",
        signals: tuple[str, ...] = (),
        only: int | None = None,
        poison: tuple[str, int, str] | None = None,
        **environment: str,
    ) -> list[int]:
        """One attempt; the exit code of each rank, negative for a signal.

        Args:
            workshop: the project to run in.
            ranks: processes.
            workers: loader workers of each.
            point: where signals are sent, see interruptions.py.
            signals: their names.
            only: the rank that is interrupted or poisoned; None: all.
            poison: module, step and ``output`` or ``gradient``: what becomes NaN or infinite.
            environment: further variables.
        """
        workshop.runs.mkdir(exist_ok=True)
        return self.forks.ask(
            "interrupted", workshop, ranks, environment,
            experiment=self.experiment, workers=workers, point=point, signals=signals, only=only, poison=poison,
        )  # fmt: skip

    def whole(self, ranks: int) -> "Outcome":
        """The uninterrupted run, made once for each number of ranks."""
        root = self.root / f"whole-{ranks}"
        if not root.exists():
            workshop = self.project(root)
            assert self.attempt(workshop, ranks) == [0] * ranks, said(workshop)
        return outcome(Workshop(root, self.data))

    def project(self, root: Path) -> Workshop:
        """A new project that holds the experiment."""
        made = make_workshop(root, self.data)
        made.stream()
        made.sticky()
        made.talk()
        made.bits()
        return made


def said(workshop: Workshop) -> str:
    """The end of what the attempts in a project wrote."""
    return (workshop.root / "log").read_text()[-3000:]


def run_folder(workshop: Workshop) -> Path:
    (folder,) = workshop.runs.glob("*/*/cpu/s1-*")
    return folder


@dataclass
class Outcome:
    """The results of a run that must not depend on interruptions."""

    checkpoint: dict[str, Any]
    record: list[dict[str, Any]]
    outputs: str
    order: dict[str, list[int]]


def outcome(workshop: Workshop) -> Outcome:
    loaded = read(checkpoint_path(run_folder(workshop) / "checkpoints", 17))
    checkpoint = {
        key: loaded[key] for key in ("state_dict", "optimizer_states", "lr_schedulers", "global_step")
    }
    checkpoint |= {"random": loaded["random_states"], "carried": loaded["carried"]}
    checkpoint["position"] = [loaded[key] for key in DATA if key in loaded]
    drawn = curves(read_events(run_folder(workshop) / EVENTS_FILE))
    checkpoint["curves"] = {name: points for name, points in drawn.items() if TIMED not in name}
    checkpoint["tokens"] = loaded["callbacks"]["Curves"]["tokens"]
    (path,) = workshop.records()
    outputs = path.with_suffix(".outputs.txt")
    order = [json.loads(line) for line in (workshop.runs / "order.jsonl").read_text().splitlines()]
    return Outcome(
        checkpoint,
        [m for m in json.loads(path.read_text())["metrics"] if TIMED not in m["name"]],
        outputs.read_text() if outputs.exists() else "",
        {json.dumps(place): index for place, index in order},  # of a step that was repeated, the last counts
    )


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Every place in which two trees of tensors and plain values differ, bit for bit."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return [] if a.dtype == b.dtype and torch.equal(a, b) else [where]
    if isinstance(a, dict) and isinstance(b, dict):
        return [d for key in {**a, **b} for d in differences(a.get(key), b.get(key), f"{where}.{key}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return [
            d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{where}.{i}")
        ]
    return [] if type(a) is type(b) and a == b else [f"{where}: {a!r:.60} is not {b!r:.60}"]
