"""Weights & Biases, which mirrors a run and never stands in its way. Needs neither package nor network."""

import hashlib
import netrc
import os
import socket
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse

from repro.recipe import Recipe

PROJECT_NAME = "repro"
_REACH_S = 3.0
Mode = Literal["disabled", "offline", "online"]
MODES: dict[str, Mode] = {
    "disabled": "disabled",
    "offline": "offline",
    "dryrun": "offline",
    "online": "online",
}
# What W&B shows as a run's summary: the best, not the last.
SUMMARIES = {"val/loss": "min", "val/ppl": "min", "val/bleu": "max", "val/exact_match": "max"}


def wandb_id(run_id: str) -> str:
    """A stable id for a run: a requeued job continues its own run and no other. W&B forbids ``/ : @ #``."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:16]


def mode() -> Mode:
    """``disabled``, ``offline`` or ``online``: as WANDB_MODE says, else online given a key and a network."""
    asked = os.environ.get("WANDB_MODE", "").lower()
    if asked in MODES:
        return MODES[asked]
    url = urlparse(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai")
    if not has_key(url.hostname or ""):
        return "offline"
    return (
        "online"
        if _reachable(url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
        else "offline"
    )


def has_key(host: str) -> bool:
    """Whether a key is set for the host, in the environment or in ``.netrc``; it is never read out."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _reachable(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_REACH_S).close()
    except OSError:
        return False
    return True


def logger(recipe: Recipe, seed: int, folder: Path) -> Any:
    """A Lightning logger for W&B, or None where it is disabled, not installed or does not start.

    Group: experiment and scale. Tags: paper, scale, published tables. Display name: the run id.
    """
    how = mode()
    if how == "disabled":
        return None
    try:
        import wandb

        run_id = recipe.run_id(seed)
        tables = {f"{recipe.paper}:{cell['table']}" for cell in recipe.config.get("reproduces") or ()}
        run = wandb.init(
            id=wandb_id(run_id),
            name=run_id,
            resume="allow",
            mode=how,
            dir=folder,
            project=os.environ.get("WANDB_PROJECT", PROJECT_NAME),
            group=f"{recipe.experiment}/{recipe.scale}",
            job_type="train",
            tags=sorted({tag[:64] for tag in (recipe.paper, recipe.scale, *tables)}),
            config={"recipe": recipe.config, "seed": seed, "hash": recipe.hash8},
            settings=wandb.Settings(init_timeout=20, silent=True, console="off"),
        )
        run.define_metric("trainer/global_step")
        run.define_metric("*", step_metric="trainer/global_step")
        for metric, goal in SUMMARIES.items():
            run.define_metric(metric, step_metric="trainer/global_step", summary=goal)
        return _forgiving(run)
    except Exception as error:  # W&B trouble of any kind never stops a run
        print(f"W&B is off for this run: {_brief(error)}")
        return None


def _forgiving(run: Any) -> Any:
    """Lightning's logger over a W&B run, which stops mirroring at the first failure and says so once."""
    from lightning.pytorch.loggers import WandbLogger

    class Forgiving(WandbLogger):
        lost = False

        def log_metrics(self, metrics: Any, step: int | None = None) -> None:
            if self.lost:
                return
            try:
                super().log_metrics(metrics, step)
            except Exception as error:
                self.lost = True
                print(f"W&B takes no more of this run: {_brief(error)}")

    return Forgiving(experiment=run)


def _brief(error: Exception) -> str:
    """An error's kind and the first line it says, if any."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first[:160]}"


def finish(made: Any) -> str | None:
    """Ends the W&B run; returns its address where it has one."""
    if made is None:
        return None
    try:
        url = None if made.experiment.settings._offline else made.experiment.url
        made.experiment.finish()
    except Exception as error:
        print(f"W&B did not finish: {_brief(error)}")
        return None
    return url if isinstance(url, str) and url else None
