"""Runs a record's command again from a git worktree of its commit, in temporary folders."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from repro.code.source import git
from repro.errors import EXIT_INTERRUPTED, EXIT_REQUEUE, Interrupted, ReproError, UserError
from repro.paths import data_dir
from repro.record import INSTRUCTIONS, RunRecord, read_records
from repro.verify.comparison import comparable

_START_FROM = re.compile(r"^start_from: (\S+)$", re.MULTILINE)


def refuse(record: RunRecord, checkout: Path) -> None:
    """Finds out before anything is run that a record cannot be verified here.

    Raises:
        UserError: no clean commit, or none of this checkout; another command; several nodes; only numbers that measure
            the machine.
    """
    run_id, commit, nodes = record.run_id, record.commit, record.hardware.get("nodes", 1)
    if commit is None or record.dirty is not False or not re.fullmatch("[0-9a-f]{40,64}", commit):
        changes = {True: "with", False: "without", None: "perhaps with"}[record.dirty]
        raise UserError(
            f"{run_id} ran at commit {commit!r} {changes} uncommitted changes; choose another record"
        )
    if not record.command.startswith("repro run "):
        raise UserError(f"{run_id} has the command {record.command!r}, which is not a `repro run`")
    if git(checkout, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        raise UserError(
            f"commit {commit} is not in a git checkout at {checkout}; run `git fetch` in a clone, --unshallow in a "
            "shallow one"
        )
    if nodes != 1:
        raise UserError(f"{run_id} ran on {nodes} nodes; verify runs on one only")
    if not comparable(record):
        raise UserError(
            f"{run_id} measured its machine only, so nothing must come out again; choose another record"
        )


def rerun(record: RunRecord, checkout: Path, loud: bool) -> RunRecord | str:
    """Runs the record's command with the code of its commit, after the runs that it starts from.

    Args:
        record: one that :func:`refuse` lets pass.
        checkout: git checkout that holds the commit; nothing but a temporary worktree is added to it.
        loud: whether to print the run's output; else only the errors of a failed run.

    Returns:
        The record of the run, or one line with the reason why there is none, without a path of this machine.

    Raises:
        Interrupted: asked to stop.
        UserError: the run failed, and packages of its commit are not installed.
        ReproError: the worktree cannot be made, or the run used other code than the commit's.
    """
    with terminable(), worktree(checkout, str(record.commit)) as tree:
        env = environment(record, tree)
        before = [
            ["run", experiment, "--scale", record.scale, "--seed", str(record.seed)]
            for experiment in _first(record, tree, env)
        ]
        output = None if loud else subprocess.PIPE
        for words in [*before, shlex.split(record.command)[1:]]:
            done = subprocess.run(
                _command(*words), cwd=tree, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
            if done.returncode in (EXIT_REQUEUE, EXIT_INTERRUPTED):
                raise Interrupted(
                    f"repro {shlex.join(words)} was asked to stop: nothing was compared or kept"
                )
            if done.returncode:
                print((done.stderr or b"").decode(errors="replace"), end="", file=sys.stderr)
                if missing := missing_packages(tree):
                    raise UserError(
                        f"the run failed, and its commit pins packages that are not installed here: pip install "
                        f"{' '.join(missing)}; nothing was compared or kept"
                    )
                return f"repro {shlex.join(words)} ended with exit code {done.returncode}"
        records = read_records(tree.parent / "results" / "runs" / record.experiment).good
    if len(records) != 1:
        return f"{record.command} left {len(records)} records"
    if records[0].commit != record.commit:
        raise ReproError(f"the code of commit {records[0].commit} ran, not of {record.commit}")
    return records[0]


def missing_packages(tree: Path) -> list[str]:
    """The packages that the lock file of a tree pins and that are not installed."""
    lock = tree / "requirements.lock"
    text = lock.read_text(encoding="utf-8") if lock.exists() else ""
    pins = re.findall(r"^([\w.-]+)==\S+$", text, re.MULTILINE)
    installed = {canonicalize_name(one.name) for one in metadata.distributions()}
    return [pin for pin in pins if canonicalize_name(pin) not in installed]


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "repro", *words]


def _first(record: RunRecord, tree: Path, env: dict[str, str]) -> list[str]:
    """The experiments that must run first, in order, from the recipes of the commit."""
    experiments: list[str] = []
    start = record.config.get("start_from")
    while start and start not in experiments:
        experiments.insert(0, start)
        words = _command("config", start, "--scale", record.scale)
        done = subprocess.run(words, cwd=tree, env=env, capture_output=True, text=True)
        match = _START_FROM.search(done.stdout)
        start = match[1] if match else None
    return experiments


@contextlib.contextmanager
def worktree(checkout: Path, commit: str) -> Iterator[Path]:
    """A worktree of a commit in a temporary folder, with which it is removed, however the block ends.

    Raises:
        ReproError: git cannot make it.
    """
    with tempfile.TemporaryDirectory(prefix="repro-verify-", ignore_cleanup_errors=True) as folder:
        tree = Path(folder).resolve() / "code"
        try:
            if git(checkout, "worktree", "add", "--detach", str(tree), commit) is None:
                raise ReproError(f"git cannot make a worktree of {commit} in {folder}; is the disk full?")
            yield tree
        finally:
            git(checkout, "worktree", "remove", "--force", str(tree))


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
        record: its threads, vector instructions and number of GPUs are set.
        tree: worktree of the record's commit; runs and results are written next to it.
    """
    hardware, variables = record.hardware, os.environ
    count = int(hardware.get("count", 1)) if record.on_gpu else 0
    visible = variables.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    env = {key: value for key, value in variables.items() if not key.startswith("GIT_")} | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(tree), variables.get("PYTHONPATH")])),
        "REPRO_CONFIGS": "",
        "REPRO_RUNS": str(tree.parent / "runs"),
        "REPRO_RESULTS": str(tree.parent / "results"),
        "REPRO_DATA": str(data_dir().resolve()),
        "WANDB_MODE": "disabled",
        "MKL_NUM_THREADS": "",
        "CUDA_VISIBLE_DEVICES": ",".join(visible.split(",")[:count]),
    }
    if "threads" in hardware:
        env["OMP_NUM_THREADS"] = str(hardware["threads"])
    for library, value in hardware.get("instructions", {}).items():
        limit = "" if value == "default" else value
        env[INSTRUCTIONS[library]] = limit.lower() if library == "torch" else limit
    return {key: value for key, value in env.items() if value or key == "CUDA_VISIBLE_DEVICES"}
