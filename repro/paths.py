"""Paths of the folders that are read and written. Needs the standard library only.

A folder with a ``repro.yaml`` is a project while it is the working folder. Its recipes, results and profiles are read
before those of the checkout or wheel, and nothing is written anywhere else. With a wheel every working folder is a
project. In any other folder a checkout is the project.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from repro.errors import UserError

PROJECT = Path(__file__).resolve().parent.parent  # holds the package: a checkout, a snapshot or site-packages
_CARRIED = PROJECT / "repro" / "_shared"  # setup.py writes it into wheels
INSTALLED = _CARRIED.is_dir()
SHARED = _CARRIED if INSTALLED else PROJECT
PROJECT_FILE = "repro.yaml"  # of a user's project: its plugins


def project() -> Path:
    """The user's project. A snapshot of a submission holds the file of the project that it was made in."""
    named = (folder for folder in (PROJECT, Path.cwd()) if (folder / PROJECT_FILE).is_file())
    return next(named, Path.cwd() if INSTALLED else PROJECT)


def project_above() -> Path | None:
    """The nearest project around the working folder, which is not used there; None in a project or the checkout."""
    here = Path.cwd()
    around = (one for one in (here, *here.parents) if one == PROJECT or (one / PROJECT_FILE).is_file())
    found = next(around, here)
    return None if found in (here, PROJECT) else found


def _folders(variable: str, name: str) -> tuple[Path, ...]:
    """The folders of a kind in the order in which they are read; the first is the project's and may not exist."""
    own, home = os.environ.get(variable), project()
    if INSTALLED or home != PROJECT:
        return Path(own or home / name).absolute(), SHARED / name
    return (Path(own or PROJECT / name),)


def files_in(folders: Sequence[Path], pattern: str) -> dict[str, Path]:
    """Files by their path below the folders, in its order; of two with one path, that of the earlier folder."""
    found = ((folder, path) for folder in reversed(folders) for path in folder.glob(pattern))
    files = {path.relative_to(folder).as_posix(): path for folder, path in found}
    return dict(sorted(files.items(), key=lambda item: item[0].split("/")))


def configs_dirs() -> tuple[Path, ...]:
    """Recipes, one file each: ``$REPRO_CONFIGS`` or ``configs/`` of the project, then the wheel's."""
    named = os.environ.get("REPRO_CONFIGS")
    if named and not Path(named).is_dir():
        raise UserError(f"REPRO_CONFIGS={named}: there is no such folder; name one with recipes, or unset it")
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


def trials_dir() -> Path:
    """The results to which trials are added, which count for nothing.

    ``$REPRO_TRIALS``, or ``own/`` of a checkout's results, which git ignores; elsewhere the results of all runs.
    """
    if named := os.environ.get("REPRO_TRIALS"):
        return Path(named)
    own_checkout = project() == PROJECT and not INSTALLED and not os.environ.get("REPRO_RESULTS")
    return results_dir() / "own" if own_checkout else results_dir()


def all_records_dirs() -> tuple[Path, ...]:
    """The folders of :func:`records_dirs` and that of trials."""
    return tuple(dict.fromkeys((*records_dirs(), trials_dir() / "runs")))


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
    files = files_in(_folders("REPRO_CLUSTERS", "slurm/clusters"), "*.yaml")
    return {path.stem: path for path in files.values()}


def data_dir() -> Path:
    """Prepared data stores: ``$REPRO_DATA`` or ``data/`` below the current folder."""
    return Path(os.environ.get("REPRO_DATA") or "data")


def runs_dir() -> Path:
    """Run folders with checkpoints: ``$REPRO_RUNS`` or ``runs/`` below the current folder."""
    return Path(os.environ.get("REPRO_RUNS") or "runs")
