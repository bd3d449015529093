"""An ``sbatch`` that puts what it is given into the queue that the fake ``squeue`` shows."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from repro.launch.slurm import snapshot
from tests.launch.fake_slurm import FakeSlurm

SBATCH = (
    f"#!{sys.executable} -ISB\n"
    + r"""
import json, os, pathlib, re, sys
here = pathlib.Path(__file__).parent
script = pathlib.Path("/dev/stdin" if "--test-only" in sys.argv else sys.argv[-1])
with open(here / "calls.jsonl", "a") as file:
    file.write(json.dumps({"words": ["sbatch", *sys.argv[1:]], "env": dict(os.environ)}) + "\n")
said = json.loads((here / "sbatch.json").read_text())
queue = json.loads((here / "squeue.json").read_text())
given = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script.read_text(), re.MULTILINE))
number = 1 + max([0, *(int(task["ArrayJobID"]) for task in queue["tasks"])])
if number in said.get("refuses", []):
    sys.exit(f"sbatch: error: {said['complaint']}")
if "--test-only" in sys.argv:
    sys.exit()
indices = []
for piece in given.get("array", "N/A-N/A").partition("%")[0].split(","):
    first, _, last = piece.partition("-")
    indices += range(int(first), int(last or first) + 1) if first != "N/A" else ["N/A"]
for index in indices:
    state = "PENDING" if "dependency" in given else "RUNNING"
    queue["tasks"].append({"ArrayJobID": str(number), "ArrayTaskID": str(index), "State": state,
        "Reason": "None", "RestartCnt": 0, "TimeLeft": "10:00", "Name": given["job-name"],
        "Comment": given["comment"].strip('"')})
(here / "squeue.json").write_text(json.dumps(queue))
if said.get("silent"):
    sys.exit("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
print(f"{number};east")
"""
)


CONFIG = """\
MaxArraySize            = 1001
PartitionName=gpu Default=YES MaxNodes=UNLIMITED MaxTime=1-00:00:00 TotalNodes=8 TotalCPUs=512 State=UP
PartitionName=long Default=NO MaxNodes=2 MaxTime=7-00:00:00 TotalNodes=4 TotalCPUs=256 MaxCPUsPerNode=64 State=UP
PartitionName=narrow Default=NO MaxNodes=1 MaxTime=7-00:00:00 TotalNodes=4 TotalCPUs=256 State=UP
"""  # what `scontrol show` prints of the configuration and of partitions


@dataclass
class FakeCluster(FakeSlurm):
    """Jobs stay in the queue until :meth:`end` takes them out."""

    def refuses(self, *numbers: int, complaint: str = "", silent: bool = False) -> None:
        """The job ids that sbatch refuses, in which words; or it takes jobs, and times out (``silent``)."""
        output = {"refuses": numbers, "complaint": complaint, "silent": silent}
        (self.folder / "sbatch.json").write_text(json.dumps(output), encoding="utf-8")

    def tasks(self) -> list[str]:
        """The tasks in the queue."""
        result = json.loads((self.folder / "squeue.json").read_text())["tasks"]
        return [f"{t['ArrayJobID']}_{t['ArrayTaskID']}".removesuffix("_N/A") for t in result]

    def comments(self) -> list[str]:
        return [t["Comment"] for t in json.loads((self.folder / "squeue.json").read_text())["tasks"]]

    def end(self, *tasks: str) -> None:
        path = self.folder / "squeue.json"
        left = [
            t
            for t in json.loads(path.read_text())["tasks"]
            if f"{t['ArrayJobID']}_{t['ArrayTaskID']}" not in tasks
        ]
        path.write_text(json.dumps({"tasks": left}), encoding="utf-8")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster that takes every job; the machine's own commands stay on PATH behind it."""
    folder = tmp_path / "fake-slurm"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    made = FakeCluster(folder)
    made.queue()
    (folder / "sbatch").write_text(SBATCH, encoding="utf-8")
    (folder / "sbatch").chmod(0o755)
    made.refuses()
    made.answers("scontrol", out=CONFIG)
    return made


@pytest.fixture
def small_project(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """For snapshots: little to copy, and no git."""
    root = tmp_path_factory.mktemp("project")
    (root / "repro").mkdir()
    (root / "repro" / "paths.py").write_text("PROJECT = 1\n", encoding="utf-8")
    monkeypatch.setattr(snapshot, "PROJECT", root)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root.parent))
