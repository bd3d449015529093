"""A git repository with a tiny package ``repro`` whose ``run`` writes a record at once."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.record import Measurement, RunRecord

MAIN = """\
import json, os, subprocess, sys, time
from pathlib import Path
from repro.numbers import VALUE

START_FROM = {"p/second": "p/first", "p/third": "p/second", "p/round": "p/round"}
verb, experiment, _, scale, *rest = sys.argv[1:]
start = START_FROM.get(experiment)
if verb == "config":
    print("title: x" + (f"\\nstart_from: {start}" if start else ""))
    sys.exit(0)
seed = int(rest[1])
if experiment == "p/broken":
    print("one", "two", f"repro: cannot do that in {os.environ['REPRO_DATA']}", sep="\\n", file=sys.stderr)
    sys.exit(2)
if experiment == "p/silent":
    sys.exit(0)
if experiment == "p/requeue":
    sys.exit(75)
if experiment == "p/endless":
    print(os.getpid(), file=sys.stderr, flush=True)
    time.sleep(100)
runs, results = Path(os.environ["REPRO_RUNS"]), Path(os.environ["REPRO_RESULTS"])
begun = sorted(path.relative_to(runs).as_posix() for path in runs.glob("*/*/*/*"))
if start and f"{start}/{scale}/s{seed}" not in begun:
    sys.exit(f"repro: {start} has not finished here")
(runs / experiment / scale / f"s{seed}").mkdir(parents=True)
commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
record = json.loads(Path("template.json").read_text())
seen = ("REPRO_DATA", "REPRO_CONFIGS", "REPRO_RUNS", "REPRO_RESULTS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
        "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS",
        "WANDB_MODE", "CUDA_VISIBLE_DEVICES")
record["data"] |= {"begun": begun, "words": rest[2:], "seen": {name: os.environ.get(name) for name in seen}}
record |= {"experiment": experiment, "scale": scale, "seed": seed, "finished": "2026-11-22T10:00:00Z"}
record["commit"] = "0" * 40 if experiment == "p/liar" else commit
record["metrics"][0]["value"] = VALUE
path = results / "runs" / experiment / "record.json"
path.parent.mkdir(parents=True)
path.write_text(json.dumps(record))
print("the run's table")
"""


@dataclass(frozen=True)
class FakeCheckout:
    """A git repository; ``test/accuracy`` is 0.5 at the first commit and 0.75 at the second, which is checked out."""

    root: Path
    commits: tuple[str, str]

    def git(self, *words: str) -> str:
        return git(self.root, *words)


def make_checkout(root: Path) -> FakeCheckout:
    """Makes the repository in an empty folder."""
    files = {
        "repro/__init__.py": "",
        "repro/__main__.py": MAIN,
        "template.json": make_record("").to_json(),
        ".gitignore": "__pycache__/\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q")
    commits = []
    for value in (0.5, 0.75):
        (root / "repro" / "numbers.py").write_text(f"VALUE = {value}\n")
        git(root, "add", "-A")
        git(root, "commit", "-qm", str(value))
        commits.append(git(root, "rev-parse", "HEAD").strip())
    return FakeCheckout(root, (commits[0], commits[1]))


def make_record(commit: str, experiment: str = "p/x", seed: int = 1, value: float = 0.5) -> RunRecord:
    """A record of the package's ``run`` at a commit."""
    common: dict[str, Any] = json.loads(json.dumps({"config": {}, "versions": {"torch": "1"}, "curves": {}}))
    return RunRecord(
        experiment=experiment,
        scale="cpu",
        seed=seed,
        run_id=f"{experiment}/cpu/s{seed}-aaaaaaaa",
        command=f"repro run {experiment} --scale cpu --seed {seed}",
        config_hash="a" * 64,
        commit=commit,
        dirty=False,
        hardware={"device": "CPU", "count": 1, "nodes": 1, "threads": 1},
        precision="32-true",
        data={"name": "d", "manifest_sha256": "d" * 64},
        parameters=1,
        steps=2,
        tokens=3,
        wall_seconds=0.1,
        gpu_hours=0.0,
        peak_bytes=1,
        metrics=[Measurement("test/accuracy", value, "percent", "test")],
        checkpoint_sha256="e" * 64,
        outputs_sha256=None,
        finished="2026-11-21T10:00:00Z",
        **common,
    )


def git(folder: Path, *words: str) -> str:
    """Runs a git command; returns its output."""
    names = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout
