"""Runs a record's command again from a worktree of its commit, in temporary folders."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.errors import EXIT_INTERRUPTED, EXIT_REQUEUE, Interrupted, ReproError, UserError
from repro.paths import data_dir
from repro.record import INSTRUCTIONS, RunRecord, read_records
from repro.source import git

LAST_LINES = 10
PATIENCE_S = 30.0  # for a run that is asked to stop
_START_FROM = re.compile(r"^start_from: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    Attributes:
        record: what the run recorded, or None.
        failure: why there is none, one line.
        last_lines: what the run wrote last on stderr.
    """

    record: RunRecord | None
    failure: str = ""
    last_lines: tuple[str, ...] = ()


def refuse(record: RunRecord, checkout: Path) -> None:
    """Finds out before anything is run that a record cannot be verified here.

    Raises:
        UserError: no clean commit, or none of this checkout; another command; a GPU or nodes that are missing.
    """
    run_id, commit = record.run_id, record.commit
    if commit is None or not re.fullmatch("[0-9a-f]{40,64}", commit):
        raise UserError(f"{run_id} has commit {commit!r}, which cannot be checked out; choose another record")
    if record.dirty is not False:
        raise UserError(
            f"{run_id} ran with uncommitted changes on {commit[:12]}; choose a record that did not"
        )
    words_of(record)
    if git(checkout, "rev-parse", "--git-dir") is None:
        raise UserError(f"{checkout} is not a git checkout, so {commit[:12]} cannot be run; use a clone")
    if git(checkout, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        raise UserError(
            f"commit {commit} is not in this checkout; run `git fetch`, in a shallow clone with --unshallow"
        )
    _refuse_hardware(record)


def _refuse_hardware(record: RunRecord) -> None:
    device, nodes = record.hardware.get("device"), record.hardware.get("nodes", 1)
    if nodes != 1:
        raise UserError(f"{record.run_id} ran on {nodes} nodes ({device}); verify runs on one only")
    if record.on_gpu and (visible := gpus()) < (needed := int(record.hardware.get("count", 1))):
        raise UserError(f"{record.run_id} ran on {needed} x {device}; PyTorch sees {visible} GPUs here")


def gpus() -> int:
    """The number of GPUs that PyTorch sees here, from a separate process, which takes seconds."""
    words = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0


def words_of(record: RunRecord) -> list[str]:
    """The record's command without ``repro``.

    Raises:
        UserError: it is not a ``repro run``.
    """
    try:
        words = shlex.split(record.command)
    except ValueError:
        words = []
    if words[:2] != ["repro", "run"]:
        raise UserError(f"{record.run_id} has the command {record.command!r}, which is not a `repro run`")
    return words[1:]


def replay(record: RunRecord, checkout: Path, loud: bool) -> Replay:
    """Runs the record's command with the code of its commit, after the runs that it starts from.

    Args:
        record: one that :func:`refuse` lets pass.
        checkout: git checkout that holds the commit; nothing but a temporary worktree is added to it.
        loud: whether the run's output goes to the terminal.

    Raises:
        Interrupted: asked to stop.
        ReproError: the worktree cannot be made, or the run used other code than the commit's.
    """
    with terminable(), worktree(checkout, str(record.commit)) as tree:
        env = environment(record, tree)
        try:
            before = chain(record.config.get("start_from"), record.scale, tree, env)
        except ReproError as error:
            return Replay(None, without_paths(str(error), env))
        for experiment in before:
            words = ["run", experiment, "--scale", record.scale, "--seed", str(record.seed)]
            first = _run(words, experiment, tree, env, loud)
            if first.record is None:
                return first
        result = _run(words_of(record), record.experiment, tree, env, loud)
        if result.record is not None and result.record.commit != record.commit:
            raise ReproError(f"the code of commit {result.record.commit} ran, not of {record.commit}")
        return result


def chain(start: str | None, scale: str, tree: Path, env: dict[str, str]) -> list[str]:
    """The experiments that must run first, in order, from the recipes of the commit.

    Args:
        start: what the record starts from, or None.
        scale: of the record.
        tree: worktree of its commit.
        env: environment of its run.

    Raises:
        ReproError: a recipe cannot be read, or they start from one another in a circle.
    """
    experiments: list[str] = []
    while start is not None:
        if start in experiments:
            raise ReproError(f"{start} starts from itself, through {', '.join(experiments)}")
        experiments.insert(0, start)
        words = [sys.executable, "-m", "repro", "config", start, "--scale", scale]
        done = subprocess.run(words, cwd=tree, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ReproError(f"`repro config {start} --scale {scale}` failed: {done.stderr.strip()[-300:]}")
        match = _START_FROM.search(done.stdout)
        start = match[1] if match else None
    return experiments


@contextlib.contextmanager
def worktree(checkout: Path, commit: str) -> Iterator[Path]:
    """A worktree of a commit in a temporary folder, with which it is removed, however the block ends.

    Raises:
        ReproError: git cannot make it.
    """
    folder = Path(tempfile.mkdtemp(prefix="repro-verify-")).resolve()
    tree = folder / "code"
    try:
        if git(checkout, "worktree", "add", "--detach", str(tree), commit) is None:
            raise ReproError(f"git cannot make a worktree of {commit} in {folder}; is the disk full?")
        yield tree
    finally:
        git(checkout, "worktree", "remove", "--force", str(tree))
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Lets TERM end the block as Ctrl-C does, so that what is temporary is removed.

    Raises:
        Interrupted: instead of a KeyboardInterrupt.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted: nothing was compared or kept") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def environment(record: RunRecord, tree: Path) -> dict[str, str]:
    """Environment variables of the run: the commit's code and recipes, our data, all else temporary.

    Args:
        record: says how many threads, and on what device.
        tree: worktree of the record's commit; runs and results go beside it.
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    for name in ("REPRO_CONFIGS", "MKL_NUM_THREADS"):
        env.pop(name, None)
    path = [str(tree), *filter(None, [env.get("PYTHONPATH")])]
    env |= {
        "PYTHONPATH": os.pathsep.join(path),
        "REPRO_RUNS": str(tree.parent / "runs"),
        "REPRO_RESULTS": str(tree.parent / "results"),
        "REPRO_DATA": str(data_dir().resolve()),
        "WANDB_MODE": "disabled",
    }
    if "threads" in record.hardware:
        env["OMP_NUM_THREADS"] = str(record.hardware["threads"])
    for library, value in record.hardware.get("instructions", {}).items():
        env.pop(INSTRUCTIONS[library], None)
        if value != "default":
            env[INSTRUCTIONS[library]] = value.lower() if library == "torch" else value
    count = int(record.hardware.get("count", 1)) if record.on_gpu else 0
    visible = env.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    env["CUDA_VISIBLE_DEVICES"] = ",".join(visible.split(",")[:count])
    return env


def _run(words: list[str], experiment: str, tree: Path, env: dict[str, str], loud: bool) -> Replay:
    """Runs one command in the worktree and reads its record."""
    code, last_lines = _call(words, tree, env, loud)
    records = read_records(tree.parent / "results" / "runs" / experiment).good
    if len(records) == 1:
        return Replay(records[0])
    if code in (EXIT_REQUEUE, EXIT_INTERRUPTED):
        raise Interrupted(f"repro {shlex.join(words)} was asked to stop: nothing was compared or kept")
    last_line = f": {last_lines[-1]}" if last_lines else ""
    reason = f"repro {shlex.join(words)} ended with exit code {code} and {len(records)} records{last_line}"
    return Replay(None, without_paths(reason, env), tuple(last_lines))


def without_paths(reason: str, env: dict[str, str]) -> str:
    """A reason that names no folder of this machine: it is kept with the outcome, which is committed."""
    for name, path in (("<folder>", str(Path(env["REPRO_RUNS"]).parent)), ("<data>", env["REPRO_DATA"])):
        reason = reason.replace(path, name)
    return reason


def _call(words: list[str], tree: Path, env: dict[str, str], loud: bool) -> tuple[int, list[str]]:
    """Runs a command of the worktree; its exit code, and its last lines on stderr."""
    last_lines: deque[str] = deque(maxlen=LAST_LINES)
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    if not loud:
        streams["stdout"] = subprocess.DEVNULL
    command = [sys.executable, "-m", "repro", *words]
    with subprocess.Popen(command, cwd=tree, env=env, text=True, errors="replace", **streams) as process:
        try:
            for line in process.stderr or ():
                last_lines.append(line.rstrip())
                if loud:
                    print(line, end="", file=sys.stderr, flush=True)
            process.wait()
        except BaseException:
            process.terminate()  # a run ends after its update, all ranks together
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            process.kill()
            raise
    return process.returncode, [line for line in last_lines if line]
