"""W&B's client for one attempt of a run: settings, start and end, and how to stop one that hangs. Public names only."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.errors import ReproError

if TYPE_CHECKING:
    from wandb import Artifact, Run

STEP = "trainer/global_step"
PREEMPTING = 75
# Slurm sends these to all processes of a step. W&B's service would end at the first two; the run continues.
SHIELDED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# Nothing of the machine but its load is logged: no command line, no host, no packages, no repository.
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
    "reinit": "create_new",
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
    "x_transaction_log_flush_interval": 1.0,  # seconds
}


def start(about: Mapping[str, Any]) -> "Run":
    """Begins a fragment of a run below ``about["dir"]``, offline whatever the environment says.

    Args:
        about: ``id``, ``name``, ``dir``, ``project``, ``group``, ``job_type``, ``tags``, ``config``, ``summaries``.

    Raises:
        ReproError: another W&B run is open in this process.
        Exception: whatever W&B's client raises.
    """
    import wandb

    if wandb.run is not None:
        raise ReproError("another W&B run is open in this process")
    known = wandb.Settings.model_fields
    run: Run = wandb.init(
        **{
            key: about[key] for key in ("id", "name", "dir", "project", "group", "job_type", "tags", "config")
        },
        resume="allow",
        mode="offline",
        settings=wandb.Settings(**{key: value for key, value in SETTINGS.items() if key in known}),
    )
    _forget_import_hooks()
    run.define_metric(STEP)
    run.define_metric("*", step_metric=STEP)
    for metric, goal in about["summaries"].items():
        run.define_metric(metric, step_metric=STEP, summary=goal)
    return run


def _forget_import_hooks() -> None:
    """Takes away what W&B adds to every import: a call of its client, which raises in any thread if the service died.

    The list is replaced, not changed, since another thread may be going through it.
    """
    sys.meta_path = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("wandb.")]


def end(run: "Run", code: int) -> None:
    """Ends a fragment with the run's exit code; what was logged is on disk when this returns."""
    import wandb

    if code == PREEMPTING:
        run.mark_preempting()
    run.finish(exit_code=code)
    wandb.teardown()


def reset() -> None:
    """Forgets a service that failed, so that the next start has one of its own; prints and raises nothing."""
    import wandb

    kill_service()
    with contextlib.suppress(BaseException):
        wandb.teardown()


def artifact(spec: Mapping[str, Any]) -> "Artifact":
    """W&B's artifact for what :func:`repro.tracking.labels.artifact` returned."""
    import wandb

    result = wandb.Artifact(spec["name"], type=spec["type"], metadata=spec["metadata"])
    for name, text in spec["files"].items():
        with result.new_file(name, mode="w", encoding="utf-8") as file:
            file.write(text)
    return result


def kill_service() -> None:
    """Kills W&B's service below this process: calls that wait for it then raise."""
    for pid in services():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def services() -> list[int]:
    """Processes of W&B's service that this process started, as Linux lists them; none on other systems."""
    pids = []
    for tasks in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for pid in tasks.read_text().split():
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if Path(words[0].decode(errors="replace")).name.startswith("wandb-core"):
                    pids.append(int(pid))
    return pids


@contextlib.contextmanager
def environment(folder: Path) -> Iterator[None]:
    """W&B's variables while a run is logged: no service of a parent process, staged files below the run's folder."""
    ours = {
        "WANDB_SERVICE": None,
        "WANDB_DATA_DIR": str(folder),
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
    }
    before = {name: os.environ.get(name) for name in ours}
    _set(ours)
    try:
        yield
    finally:
        if f"-{os.getpid()}-" in (before["WANDB_SERVICE"] or ""):  # of this process, and ended meanwhile
            before["WANDB_SERVICE"] = None
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
