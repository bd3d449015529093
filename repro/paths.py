"""Paths of the project's folders. Standard library only."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def _folder(variable: str, default: Path) -> Path:
    return Path(os.environ.get(variable) or default)


def configs_dir() -> Path:
    """Recipes, one file each: ``$REPRO_CONFIGS`` or ``configs/`` of the checkout."""
    return _folder("REPRO_CONFIGS", PROJECT / "configs")


def results_dir() -> Path:
    """Published numbers, run records and generated tables: ``$REPRO_RESULTS`` or ``results/``."""
    return _folder("REPRO_RESULTS", PROJECT / "results")


def published_dir() -> Path:
    """The papers' numbers: ``published/`` of the results folder; that of the checkout where it has none."""
    own = results_dir() / "published"
    return own if own.is_dir() else PROJECT / "results" / "published"


def data_dir() -> Path:
    """Prepared data stores: ``$REPRO_DATA`` or ``data/`` below the current folder."""
    return _folder("REPRO_DATA", Path("data"))


def runs_dir() -> Path:
    """Run folders with checkpoints: ``$REPRO_RUNS`` or ``runs/`` below the current folder."""
    return _folder("REPRO_RUNS", Path("runs"))
