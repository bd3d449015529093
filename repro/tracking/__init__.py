"""Weights & Biases, which mirrors a run and never blocks it. Needs neither package nor network.

Each start of a run writes an offline fragment under the run's one id, through Lightning's ``WandbLogger`` in a thread
(``background.py``). W&B's own tool uploads fragments: the newest while it is written, where the server can be
reached (``live.py``), all others afterwards (``sync.py``). Nothing here waits longer than ``Limits`` says, and no
failure of W&B is an error.
"""

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.recipe import Recipe
from repro.tracking import labels
from repro.tracking.reach import MODES, Mode, decide, has_key, mode
from repro.tracking.sync import write_about

if TYPE_CHECKING:
    from repro.tracking.background import BackgroundLogger, Limits

__all__ = ["PROJECT_NAME", "Mode", "alert", "finish", "has_key", "logger", "mode", "url", "wandb_id"]

PROJECT_NAME = "repro"
FINISH_S = 60.0
# What W&B shows as a run's summary: the best, not the last.
SUMMARIES = {
    **dict.fromkeys(("val/loss", "val/ppl", "val/bpc", "val/bpb"), "min"),
    **dict.fromkeys(("val/bleu", "val/exact_match", "val/accuracy"), "max"),
}


def wandb_id(run_id: str) -> str:
    """A stable id for a run: a requeued job continues its own run and no other. W&B forbids ``/ : @ #``."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:16]


def logger(
    recipe: Recipe,
    seed: int,
    folder: Path,
    find_facts: Callable[[], Mapping[str, Any]] = dict,
    limits: "Limits | None" = None,
) -> "BackgroundLogger | None":
    """A Lightning logger that mirrors a run to W&B, or None where it is disabled or cannot start.

    Blocks for at most ``limits.probe`` and ``limits.start`` seconds. What goes wrong is one line on stderr.
    Group and tags: see :mod:`repro.tracking.labels`. Display name: the run id.

    Args:
        recipe: resolved.
        seed: of the run.
        folder: of the run; fragments lie in ``wandb/`` below it.
        find_facts: gives what else is known at the start, for the run's configuration: ``commit``, ``dirty``, ``data``,
            ... The data become an artifact. Not called where W&B is disabled.
        limits: how long to wait for what.
    """
    how = MODES.get(os.environ.get("WANDB_MODE", "").lower())
    if how == "disabled" or not _is_first_rank():
        return None
    try:
        if importlib.util.find_spec("wandb") is None:
            _off("wandb is not installed")
            return None
        import wandb  # noqa: F401 - not first in the thread: a data loader forked meanwhile would find it half-loaded

        from repro.tracking.background import BackgroundLogger, Limits, say

        limits = limits or Limits()
        how, why = decide(limits.probe)
        if why is not None:
            say(f"{why}; this run is logged offline")
        facts = find_facts()
        about = _about(recipe, seed, folder, facts)
        (folder / "wandb").mkdir(parents=True, exist_ok=True)
        write_about(folder, about["id"], about["project"])
        result = BackgroundLogger(about, folder.resolve() / "wandb", limits, online=how == "online")
        if facts.get("data"):
            result.log_artifact(labels.artifact("dataset", f"data-{facts['data']['name']}", facts["data"]))
        return result
    except Exception as error:  # W&B trouble of any kind never stops a run
        _off(f"{type(error).__name__}: {str(error).partition(chr(10))[0][:160]}")
        return None


def _off(why: str) -> None:
    print(f"W&B: off for this run: {why}", file=sys.stderr, flush=True)


def _is_first_rank() -> bool:
    """False on every rank but the first; true where no trainer was made yet."""
    from lightning.pytorch.utilities.rank_zero import rank_zero_only

    return int(getattr(rank_zero_only, "rank", 0) or 0) == 0


def _about(recipe: Recipe, seed: int, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """All data sent to W&B before a run's first row: no host, no user, no path."""
    run_id = recipe.run_id(seed)
    return {
        "id": wandb_id(run_id),
        "name": run_id,
        "dir": str(folder.resolve()),
        "project": os.environ.get("WANDB_PROJECT", PROJECT_NAME),
        "group": labels.group(recipe),
        "job_type": labels.JOB_TYPE,
        "tags": labels.tags(recipe, labels.states_of(facts)),
        "config": {"recipe": recipe.config, "seed": seed, "hash": recipe.hash8, **facts},
        "summaries": SUMMARIES,
    }


def url(run_logger: "BackgroundLogger | None") -> str | None:
    """The run's address, or None where it is not sent while it runs."""
    return None if run_logger is None else run_logger.url


def alert(run_logger: "BackgroundLogger | None", title: str, text: str, level: str = "WARN") -> None:
    """Sends an alert to W&B, if the run is logged there.

    Args:
        run_logger: what ``logger`` returned.
        title: at most 64 characters.
        text: one line.
        level: ``INFO``, ``WARN`` or ``ERROR``.
    """
    if run_logger is not None:
        run_logger.alert(title, text, level)


def finish(
    run_logger: "BackgroundLogger | None", limit_s: float = FINISH_S, exit_code: int = 0
) -> str | None:
    """Ends the W&B run within about ``limit_s`` seconds; returns its address where it has one.

    Args:
        run_logger: what ``logger`` returned.
        limit_s: what W&B has not received by then stays in the run's folder, for `repro sync`.
        exit_code: of the run; W&B shows 0 as finished, 75 as preempting, all else as failed.
    """
    if run_logger is None:
        return None
    run_logger.close(limit_s, exit_code)
    return url(run_logger)
