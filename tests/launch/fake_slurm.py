"""Slurm's commands as scripts on PATH that answer from a file: shapes and failures no real cluster gives at will."""

import json
import os
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from repro.events import EVENTS_FILE, encode
from repro.launch.status.ledger import ArrayTask, Job, Submission, write_submission
from repro.launch.status.state import RunState, survey
from tests.launch.conftest import World

NAME = "20260101T000000Z-aa"
MINE = f"repro {NAME}"

SCRIPT = (
    f"#!{sys.executable} -ISB\n"
    + """
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
name = os.path.basename(__file__)
with open(here / "calls.jsonl", "a") as file:
    file.write(json.dumps({"words": [name, *sys.argv[1:]], "env": dict(os.environ)}) + "\\n")
said = json.loads((here / f"{name}.json").read_text())
if said.get("hangs"):
    sys.stdin.close()
    os.read(os.pipe()[0], 1)
for word, complaint in said.get("refuses", {}).items():
    if word in sys.argv:
        sys.stderr.write(complaint)
        sys.exit(1)
sys.stderr.write(said.get("err", ""))
sys.stdout.write(said.get("out", ""))
if "tasks" in said:
    form = sys.argv[sys.argv.index("-O") + 1]
    fields = [part.split(":", 1) for part in form.split(",")]
    for task in said["tasks"]:
        print("".join(str(task.get(field, "N/A")) + suffix for field, suffix in fields))
sys.exit(said.get("code", 0))
"""
)
PAPER = "alpha"


def queued(job: str, state: str = "RUNNING", comment: str = "", **fields: Any) -> dict[str, Any]:
    """A task as squeue has it, by the names of its fields."""
    array, _, index = job.partition("_")
    made = {
        "ArrayJobID": array,
        "ArrayTaskID": index or "N/A",
        "State": state,
        "Reason": "None",
        "RestartCnt": 0,
    }
    return {**made, "TimeLeft": "10:00", "Name": "job", "Comment": comment or "(null)", **fields}


@dataclass
class FakeSlurm:
    """The commands in a folder that is all of PATH."""

    folder: Path
    ledger: list[Submission] = field(default_factory=list)

    def answers(self, command: str, **output: Any) -> None:
        """Sets the response of a command: out, err, code, tasks (squeue), refuses, hangs."""
        path = self.folder / command
        path.write_text(SCRIPT, encoding="utf-8")
        path.chmod(0o755)
        (self.folder / f"{command}.json").write_text(json.dumps(output), encoding="utf-8")

    def queue(self, *tasks: dict[str, Any]) -> None:
        self.answers("squeue", tasks=list(tasks))

    def accounts(self, **states: str) -> None:
        """By task, its number spelt ``j12_0``."""
        self.answers("sacct", out="".join(f"{job[1:]}|{state}\n" for job, state in states.items()))

    def calls(self, command: str = "") -> list[list[str]]:
        """The words of each call so far."""
        log = self.folder / "calls.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        words = [json.loads(line)["words"] for line in lines]
        return [call for call in words if command in ("", call[0])]

    def environment(self) -> dict[str, str]:
        """The environment of the last call."""
        return dict(json.loads((self.folder / "calls.jsonl").read_text().splitlines()[-1])["env"])

    def submit(self, name: str, number: int | None, *runs: str, job: str = "job") -> Submission:
        """Writes a submission of one array to the ledger."""
        tasks = tuple(
            ArrayTask(
                i, run.rsplit("/", 2)[0], run.split("/")[-2], int(run.rsplit("/s", 1)[1].split("-")[0]), run
            )
            for i, run in enumerate(runs)
        )
        made = Submission(
            name, "site", "repro submit", None, None, (Job(job, "a.sbatch", number, (), tasks),)
        )
        write_submission(made)
        (made.folder / "logs").mkdir(exist_ok=True)
        return made


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """An empty queue, no accounting, and an empty ledger."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path / "runs"))
    made = FakeSlurm(folder)
    made.queue()
    return made


def run_id(seed: int = 1, experiment: str = f"{PAPER}/base", scale: str = "cpu") -> str:
    return f"{experiment}/{scale}/s{seed}-0123abcd"


def local_time(seconds_ago: float) -> str:
    return (datetime.now() - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S")


def write_status(run: str = run_id(), job: str | None = "12_0", age: float = 5, **values: Any) -> Path:
    folder = Path(os.environ["REPRO_RUNS"]) / run
    folder.mkdir(parents=True, exist_ok=True)
    given = {"state": "training", "job": job, "attempt": 1, "step": 0, **values}
    t = (
        time.time() - age
        if "updated" not in given
        else datetime.fromisoformat(given.pop("updated")).timestamp()
    )
    state, attempt, step = (given.pop(name) for name in ("state", "attempt", "step"))
    numbers = {name: given.pop(name) for name in list(given) if name.startswith("train")}
    message = {"message": given.pop("message")} if "message" in given else {}
    first = {"state": "starting", "resumed_from": 0, **given}
    lines = [encode("state", first["resumed_from"], first, t)] * attempt
    lines += [encode("train", step, {"train/lr": None, **numbers}, t)] if numbers else []
    lines += [encode("state", step, {"state": state, **message}, t)] if state != "starting" else []
    (folder / EVENTS_FILE).write_bytes(b"".join(lines))
    return folder


@pytest.fixture
def submitted(world: World, slurm: FakeSlurm) -> Submission:
    """One run, submitted as task 0 of job 12."""
    return slurm.submit(NAME, 12, run_id())


def only(targets: tuple[str, ...] = ()) -> RunState:
    """The one row of the table."""
    (row,) = survey(targets, old_too=True).rows
    return row
