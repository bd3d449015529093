"""Fragments: the folders in which W&B's client stores what a run logged, one for each start of the run.

A fragment is ``offline-run-<time>-<id>/run-<id>.wandb``. W&B's own tool puts ``run-<id>.wandb.synced`` beside the log
once the server has all of it. The log itself is W&B's: nothing here reads it.
"""

import os
from pathlib import Path

HEADER = 7  # bytes of a log that holds nothing


def fragments_of(folder: Path) -> list[Path]:
    """Logs of a run's fragments that hold anything, in the order in which they were begun.

    Args:
        folder: of the run.
    """
    logs = [log for log in (folder / "wandb").glob("*run-*/run-*.wandb") if log.stat().st_size > HEADER]
    return sorted(logs, key=lambda log: log.parent.name.partition("run-")[2])


def is_synced(log: Path) -> bool:
    """Whether W&B's tool has seen the server take all of a fragment."""
    return log.with_name(f"{log.name}.synced").exists()


def environment() -> dict[str, str]:
    """Environment for W&B's tool in a child process: the user's, without variables that would keep it offline."""
    base = {name: value for name, value in os.environ.items() if name not in ("WANDB_MODE", "WANDB_SERVICE")}
    return {**base, "WANDB_ERROR_REPORTING": "false"}
