"""``repro pack``: a copy of the project for a machine that git and a network do not reach, and its records back.

The copy holds the sources and the commit they are of, published numbers, tests, records, the ledger, and stores. There,
``python -m repro`` works without variables and leaves out what is recorded. Its new records name the commit, as
those of submitted jobs do.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from repro.code.source import is_snapshot
from repro.errors import UserError
from repro.files import write_atomic, writing
from repro.launch.clean import remove
from repro.launch.slurm.snapshot import read_sources, write_snapshot
from repro.ledger import appending, read_ledger
from repro.paths import data_dir, results_dir, trials_dir
from repro.record import LEDGER

_RESULTS = ("published", "tests", "*.json", "runs/*/*/*.json", f"runs/{LEDGER}")  # read by runs and verdicts


def pack(folder: Path, stores: Sequence[str]) -> None:
    """Writes the copy into a new folder.

    Args:
        folder: of the copy.
        stores: names of data sets, whose prepared stores are copied.

    Raises:
        UserError: no empty folder, a store is missing, or the errors of
            :func:`repro.launch.slurm.snapshot.read_sources`.
        ReproError: the disk is full.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder} is not an empty folder; name a new one")
    for name in stores:
        if not any((data_dir() / name).glob("*/manifest.json")):
            data_set, inside, _ = name.partition("/")
            remedy = f"name the data set, {data_set}" if inside else f"`repro data prepare {name}` makes it"
            raise UserError(f"no store of {name} in {data_dir()}; {remedy}")
    files, _ = read_sources()
    try:
        with writing(folder):
            write_snapshot(folder, files)
        for path in (path for pattern in _RESULTS for path in results_dir().glob(pattern)):
            _copy(path, folder / "results" / path.relative_to(results_dir()))
        for name in stores:
            _copy(data_dir() / name, folder / "data" / name)
    except BaseException:
        remove([*folder.glob("*")])  # so that the same command works again
        raise


def bring_back(folder: Path) -> int:
    """Adds the records of a copy, and the starts that its ledger notes, to the project's results.

    Returns:
        The number of files that were added. Files that are here already stay as they are.

    Raises:
        UserError: no copy of a project, or a malformed ledger.
        ReproError: the disk is full.
    """
    if not is_snapshot(folder):
        raise UserError(f"{folder} was not made by `repro pack`")
    made = {
        folder / "results" / "runs": results_dir() / "runs",
        folder / "results" / "own" / "runs": trials_dir() / "runs",
    }
    added = 0
    for source, target in made.items():
        for path in sorted(p for p in source.rglob("*") if p.is_file() and p.name != LEDGER):
            here = target / path.relative_to(source)
            if not here.exists():
                write_atomic(here, path.read_bytes())
                added += 1
        if lines := read_ledger(source):
            with appending(target) as (known, append):
                here_already = set(known)
                append([line for line in lines if line not in here_already])
    return added


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        # Of the error of a file, copytree itself would keep the words alone.
        shutil.copytree(source, target, copy_function=lambda one, to: _copy(Path(one), Path(to)))
    else:
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
