"""Paths of the folders that are read and written. Standard library only.

In a checkout recipes, results and profiles are those of the checkout, whatever the working folder is. An installed
wheel carries recipes, published numbers, records and Slurm templates; there the working folder is the project. Its
files are read before those that the wheel carries, and nothing is written anywhere else.
"""

import os
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent  # holds the package: a checkout, a snapshot or site-packages
_CARRIED = PROJECT / "repro" / "_shared"  # setup.py writes it into wheels
INSTALLED = _CARRIED.is_dir()
SHARED = _CARRIED if INSTALLED else PROJECT


def _folders(variable: str, name: str) -> tuple[Path, ...]:
    """The folders of a kind in the order in which they are read; the first is the project's and may not exist."""
    own = os.environ.get(variable)
    if INSTALLED:
        return Path(own or name).absolute(), SHARED / name
    return (Path(own or PROJECT / name),)


def files_in(folders: Sequence[Path], pattern: str) -> dict[str, Path]:
    """Files by their path below the folders, in its order; of two with one path, that of the earlier folder."""
    files = {
        p.relative_to(folder).as_posix(): p for folder in reversed(folders) for p in folder.glob(pattern)
    }
    return dict(sorted(files.items(), key=lambda item: item[0].split("/")))


def configs_dirs() -> tuple[Path, ...]:
    """Recipes, one file each: ``$REPRO_CONFIGS`` or ``configs/`` of the project, then the wheel's."""
    return _folders("REPRO_CONFIGS", "configs")


def configs_dir() -> Path:
    """The project's recipes."""
    return configs_dirs()[0]


def results_dirs() -> tuple[Path, ...]:
    """Published numbers and records: ``$REPRO_RESULTS`` or ``results/`` of the project, then the wheel's."""
    return _folders("REPRO_RESULTS", "results")


def results_dir() -> Path:
    """The project's results, to which records and generated tables are written."""
    return results_dirs()[0]


def records_dirs() -> tuple[Path, ...]:
    """Folders from which records are read: ``runs/`` of each folder of results."""
    return tuple(folder / "runs" for folder in results_dirs())


def published_files() -> dict[str, Path]:
    """Published files by paper; the packaged ones where no folder of results has any."""
    own = [folder for results in results_dirs() if (folder := results / "published").is_dir()]
    files = files_in(own or [SHARED / "results" / "published"], "*.yaml")
    return {path.stem: path for path in files.values()}


def fair_test_files() -> dict[str, Path]:
    """The files of tests by paper, beside the published numbers."""
    own = [results for results in results_dirs() if (results / "published").is_dir()]
    folders = [results / "tests" for results in own or [SHARED / "results"]]
    return {path.stem: path for path in files_in(folders, "*.yaml").values()}


def cluster_files() -> dict[str, Path]:
    """Cluster profiles by name: of ``$REPRO_CLUSTERS`` or ``slurm/clusters`` of the project, then the wheel's."""
    return {
        path.stem: path for path in files_in(_folders("REPRO_CLUSTERS", "slurm/clusters"), "*.yaml").values()
    }


def data_dir() -> Path:
    """Prepared data stores: ``$REPRO_DATA`` or ``data/`` below the current folder."""
    return Path(os.environ.get("REPRO_DATA") or "data")


def runs_dir() -> Path:
    """Run folders with checkpoints: ``$REPRO_RUNS`` or ``runs/`` below the current folder."""
    return Path(os.environ.get("REPRO_RUNS") or "runs")
