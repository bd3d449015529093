"""Runs a batch script as a node would, with commands of Slurm's that only note how they were called."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NOTES = (
    f"#!{sys.executable} -ISB\n"
    + r"""
import json, os, pathlib, sys
here = pathlib.Path(__file__)
with open(here.with_name("calls.jsonl"), "a") as file:
    file.write(json.dumps([here.name, *(os.fsencode(word).decode() for word in sys.argv[1:])]) + "\n")
if here.name == "srun":
    if "run" in sys.argv:
        here.with_name("environment.json").write_text(json.dumps(dict(os.environ)))
    action = here.with_name("srun.sh")
    if action.exists() and "run" in sys.argv:
        os.execv("/bin/sh", ["sh", str(action)])
"""
)
JOB = {
    "SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_JOB_ID": "12", "SLURM_JOB_ID": "13", "SLURM_CPUS_PER_TASK": "1",
    "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS_PER_NODE": "2",
}  # fmt: skip


@dataclass
class Ended:
    """The result of a script.

    Attributes:
        code: its exit code.
        out: what it printed, both streams.
        calls: of srun, scontrol and module, words verbatim.
        environment: what the ranks saw.
    """

    code: int
    out: str
    calls: list[list[str]]
    environment: dict[str, str]

    def of(self, command: str) -> list[list[str]]:
        return [call[1:] for call in self.calls if call[0] == command]

    @property
    def ranks(self) -> list[str]:
        """The words of the srun that starts the ranks."""
        (result,) = [call for call in self.of("srun") if "run" in call]
        return result


def run_batch(script: str, root: Path, ranks: str = "", **variables: str) -> Ended:
    """Runs a script in a folder of its own and asserts that it leaves nothing there.

    Args:
        script: as rendered; the folder of its log is made, as the submission would have.
        root: an empty folder.
        ranks: shell lines in place of what srun starts; ``exit 75``.
        variables: of the job's environment.
    """
    tools, work = root / "tools", root / "work"
    for folder in (tools, work):
        folder.mkdir(parents=True)
    for name in ("srun", "scontrol", "module"):
        (tools / name).write_text(NOTES, encoding="utf-8")
        (tools / name).chmod(0o755)
    (tools / "python3").write_text("#!/bin/sh\nexit 0\n")
    (tools / "python3").chmod(0o755)
    if ranks:
        (tools / "srun.sh").write_text(ranks)
    logs = Path(next(line for line in script.splitlines() if "--output=" in line).partition("=")[2]).parent
    logs.mkdir(parents=True, exist_ok=True)
    before = sorted(root.rglob("*"))
    env = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(work),
        "LC_ALL": "C.UTF-8",
        **JOB,
        **variables,
    }
    done = subprocess.run(
        ["bash"], input=script.encode(), cwd=work, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False, timeout=60,
    )  # fmt: skip
    left = {p.name for p in sorted(root.rglob("*")) if p not in before}
    assert left <= {"calls.jsonl", "environment.json"}, left
    assert not list(logs.glob(".started-*"))
    notes, seen = tools / "calls.jsonl", tools / "environment.json"
    calls = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    environment = json.loads(seen.read_text()) if seen.exists() else {}
    return Ended(done.returncode, done.stdout.decode(), calls, environment)
