"""The process that holds a W&B run: reads rows from a file, hands them to the client, says how far it got.

``mirror.py`` starts it as :func:`command` says. Standard library and wandb only, since it starts with every run. It may
be killed at any time: the next one hands over what W&B has not got.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.tracking.fragments import Fragment, times_on_disk
from repro.tracking.sender import ROWS, Sender, name_no_folder

if TYPE_CHECKING:
    from wandb import Run

POLL_S = 0.1
FLUSH_S = 1.0  # the service writes to disk what it was given at least this often
FAREWELL_S = 60  # how long a process whose parent died tries to end its run
PREEMPTING = 75
# Slurm and terminals send these to all processes of a job; the parent decides when the run ends.
IGNORED = ("SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2")
# So that nothing of the machine but its load is written: no command line, no host, no packages, no repository.
SETTINGS: dict[str, Any] = {
    "console": "off",
    "silent": True,
    "symlink": False,
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    "host": "",
    "program": "",
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
    "x_service_wait": 10,
    "x_transaction_log_flush_interval": FLUSH_S,
}


class State:
    """What this process says of itself, in a file that is replaced whole.

    ``phase``: starting, on, closing (all rows were given to W&B), done, failed. ``answered``: the rows before this
    offset are with W&B's service. ``first_step``: W&B's number for the first row of the file, where it went
    online. ``fragments``: folders that this file's rows were written to. ``services``: W&B's, below this process.
    ``boot``: of the machine, a random number.
    """

    def __init__(self, path: Path, mode: str, first: dict[str, Any]) -> None:
        self.path = path
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else first
        self.said: dict[str, Any] = {
            "pid": os.getpid(),
            "mode": mode,
            "url": None,
            "error": None,
            "boot": boot(),
        }
        self.said["first_step"] = before.get("first_step")
        self.said["fragments"] = list(before.get("fragments") or [])
        self.say(phase="starting", answered=0)

    def say(self, **changed: object) -> None:
        self.said.update(changed, at=time.time())
        beside = self.path.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(self.said), encoding="utf-8")
        os.replace(beside, self.path)


def lines_from(path: Path, offset: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Every whole line from an offset on, as what it says and where it ends; a damaged line says nothing."""
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            try:
                said = json.loads(line)
            except ValueError:
                said = {}
            yield said if isinstance(said, dict) else {}, offset


def start(about: dict[str, Any], mode: str, timeout_s: float, parent: int) -> "Run":
    """Starts or continues the W&B run; raises what wandb raises."""
    import wandb

    known = getattr(wandb.Settings, "model_fields", SETTINGS)
    chosen = {**SETTINGS, "init_timeout": timeout_s, "x_stats_pid": parent}
    run: Any = wandb.init(
        id=about["id"],
        name=about["name"],
        dir=about["dir"],
        project=about["project"],
        group=about["group"],
        tags=about["tags"],
        config=about["config"],
        job_type=about.get("job_type", "train"),
        resume="allow",
        mode="online" if mode == "online" else "offline",
        settings=wandb.Settings(**{key: value for key, value in chosen.items() if key in known}),
    )
    run._assert_can_log_artifact = name_no_folder
    run.define_metric("trainer/global_step")
    run.define_metric("*", step_metric="trainer/global_step")
    for metric, goal in about["summaries"].items():
        run.define_metric(metric, step_metric="trainer/global_step", summary=goal)
    return run


def sender(run: "Run", rows: Path, state: State, mode: str) -> Sender:
    """Finds out which of the file's rows W&B has. Online, that is what the server says; else what lies on disk."""
    fragment = Path(run.dir).parent
    earlier, state.said["fragments"] = state.said["fragments"], [*state.said["fragments"], fragment.name]
    had: set[float] = set()
    for name in earlier:
        if mode == "offline" or name.startswith("offline"):
            had |= times_on_disk(fragment.parent / name)
    uploaded = 0
    if mode == "online":
        if state.said["first_step"] is None:
            state.said["first_step"] = run.starting_step
        uploaded = run.starting_step - state.said["first_step"]
    times = [said["at"] for said, _ in lines_from(rows, 0) if said.keys() & set(ROWS)]
    there = [at for at in times if at in had] + [at for at in times if at not in had][:uploaded]
    return Sender(run, had, uploaded, max(there, default=0.0))


def follow(to: Sender, rows: Path, state: State, beat_s: float, parent: int) -> int:
    """Hands over rows as they come until the file says that the run ended or the parent is gone.

    Returns:
        The run's exit code, 1 where the parent is gone.
    """
    taken = 0
    beaten = time.monotonic()
    while True:
        orphan = os.getppid() != parent
        for said, end in lines_from(rows, taken):
            if "end" in said:
                return int(said["end"]["code"])
            to.send(said)
            taken = end
        if orphan:
            signal.alarm(FAREWELL_S)
            return 1
        if time.monotonic() - beaten >= beat_s and taken > state.said["answered"]:
            to.run.status()  # answers once the service has taken what was sent before; else the parent notices
            beaten = time.monotonic()
            state.say(answered=taken)
        time.sleep(POLL_S)


def main(rows: Path, state_file: Path, mode: str, parent: int) -> None:
    """Mirrors one file of rows; exits 0 when W&B or the disk has all of it."""
    for name in IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    first, _ = next(lines_from(rows, 0))
    state = State(state_file, mode, first)
    try:
        run = start(first["about"], mode, first["init_timeout_s"], parent)
        to = sender(run, rows, state, mode)
        state.say(phase="on", url=run.url if mode == "online" else None, services=children(os.getpid()))
        code = follow(to, rows, state, first["beat_s"], parent)
        run.status()
        state.say(phase="closing")
        if code == PREEMPTING:
            run.mark_preempting()
        run.finish(exit_code=code)
        if mode == "online":
            mark_synced(Path(run.dir).parents[1], state.said["fragments"])
        state.say(phase="done")
    except BaseException as error:
        said = next(iter(str(error).splitlines()), "")[:160]
        state.say(phase="failed", error=f"{type(error).__name__}: {said}")
        os._exit(1)  # wandb's own way out waits for a service that may be gone


def boot() -> str:
    """Names the present boot of this machine, by a random number; empty where that is not known."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def known_dead(pid: int | None, where: str) -> bool:
    """Whether a process of a :class:`State` ran on this machine and is gone."""
    return pid is not None and where != "" and where == boot() and not Path(f"/proc/{pid}").exists()


def children(pid: int) -> list[int]:
    """Processes below one, as Linux tells them; none elsewhere."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            found += [int(word) for word in tasks.read_text().split()]
    return [below for child in found for below in (*children(child), child)]


def mark_synced(folder: Path, fragments: list[str]) -> None:
    """Marks online fragments as sent, which `repro sync` and ``wandb sync`` would else send a second time."""
    for name in fragments:
        if not name.startswith("offline") and list((folder / name).glob("run-*.wandb")):
            Fragment(folder / name).mark()


def command(rows: Path, state_file: Path, mode: str, parent: int) -> list[str]:
    """What starts the process: this package, whatever else is installed or lies in the current folder."""
    root = str(Path(__file__).resolve().parents[2])
    code = f"import sys; sys.path.insert(0, {root!r}); from repro.tracking.process import cli; cli()"
    return [sys.executable, "-P", "-c", code, str(rows), str(state_file), mode, str(parent)]


def cli() -> None:
    """What the command calls."""
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
