"""The code and recipes of a submission, copied when it is made: later edits do not reach its jobs.

Submissions of equal files share one copy, ``$REPRO_RUNS/slurm/snapshots/<hash>``, to which each has a link, ``code``.

A snapshot holds the files below the suite's folders that git does not ignore; without git the package and the recipes;
of an installed wheel the package with its data, and the project's recipes. Hidden files and data are left out.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from repro.code.plugins import plugin_files
from repro.code.source import SNAPSHOT_FACTS, git, release, state
from repro.errors import UserError
from repro.files import writing
from repro.launch.slurm.validation import refuse_secrets
from repro.paths import INSTALLED, PROJECT, PROJECT_FILE, configs_dir, project

FOLDERS = ("repro",) if INSTALLED else ("repro", "configs", "slurm")
SINGLE_FILES = () if INSTALLED else ("pyproject.toml", "requirements.lock")
SNAPSHOTS = "snapshots"  # folder beside those of the submissions
LARGEST_FILE = 10_000_000  # bytes; a larger one is no code


def read_sources() -> tuple[dict[str, bytes], dict[str, Any]]:
    """Reads the content of a snapshot into memory.

    Returns:
        The files by their path in the snapshot, :data:`SNAPSHOT_FACTS` included; and the facts:
        ``commit`` (None if unknown), ``dirty`` (whether the sources differ from it) and, of an installed
        wheel, ``release``.

    Raises:
        UserError: a file that is no code, leads out of the project, or holds a secret of this shell.
    """
    own_configs = configs_dir().resolve() == (PROJECT / "configs").resolve()
    paths = dict(_own_files())
    if not own_configs and not (project() / PROJECT_FILE).is_file():
        paths = {name: path for name, path in paths.items() if not name.startswith("configs/")}
    if not own_configs:
        recipes = sorted(configs_dir().glob("*/*.yaml"))
        paths |= {f"configs/{p.relative_to(configs_dir()).as_posix()}": p for p in recipes}
    if plugins := plugin_files():
        own = [project() / PROJECT_FILE, *(path for files in plugins.values() for path in files)]
        paths |= {path.relative_to(project()).as_posix(): path for path in own}
    roots = (PROJECT.resolve(), configs_dir().resolve(), *([project().resolve()] if plugins else []))
    files = {name: _read(name, path, roots) for name, path in paths.items()}
    commit, dirty = state(PROJECT)
    covered = own_configs or configs_dir() == project() / "configs"  # by the commit or the project's
    facts: dict[str, Any] = {"commit": commit, "dirty": dirty if covered or dirty is None else True}
    if wheel := release(PROJECT):
        facts["release"] = wheel
    for name, data in files.items():
        refuse_secrets(name, data)
    files[SNAPSHOT_FACTS] = (json.dumps(facts) + "\n").encode()
    return files, facts


def write_snapshot(folder: Path, files: dict[str, bytes]) -> None:
    """Writes those files of :func:`read_sources` that are not in a folder yet.

    Raises:
        UserError, ReproError: as :func:`repro.files.writing`.
    """
    for name, data in files.items():
        path = folder / name
        with writing(path):
            if path.is_file() and path.read_bytes() == data:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def link_snapshot(submission: Path, files: dict[str, bytes]) -> None:
    """Makes the link ``code`` of a submission to the snapshot of some files, and the snapshot.

    The caller holds the lock of the ledger.

    Args:
        submission: its folder.
        files: of :func:`read_sources`; their names and contents give the snapshot its name.

    Raises:
        UserError, ReproError: as :func:`repro.files.writing`.
    """
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    shared = Path("..", SNAPSHOTS, digest.hexdigest()[:16])
    write_snapshot(submission / shared, files)
    with writing(submission / "code"):
        (submission / "code").symlink_to(shared)


def _own_files() -> Iterator[tuple[str, Path]]:
    """The project's files by their path in it."""
    listed = git(PROJECT, "ls-files", "-z", "-co", "--exclude-standard", "--", *FOLDERS, *SINGLE_FILES)
    names = sorted({os.fsdecode(name) for name in (listed or b"").split(b"\0") if name})
    if "repro/paths.py" not in names:  # no git here, or the project lies ignored in another's checkout
        paths = (path for folder in FOLDERS for path in sorted((PROJECT / folder).rglob("*")))
        names = [p.relative_to(PROJECT).as_posix() for p in paths if "__pycache__" not in p.parts]
        names += SINGLE_FILES
    for name in names:
        hidden = any(part.startswith(".") for part in Path(name).parts)
        if not hidden and (PROJECT / name).is_file():  # a tracked file may have been removed
            yield name, PROJECT / name


def _read(name: str, path: Path, roots: tuple[Path, ...]) -> bytes:
    real = path.resolve()
    if not any(real.is_relative_to(root) for root in roots):
        raise UserError(
            f"{path} is a link out of the project, which a snapshot does not follow; copy the file"
        )
    try:
        if real.stat().st_size > LARGEST_FILE:
            raise UserError(
                f"{path} is larger than {LARGEST_FILE // 10**6} MB: it is not code; move it, or let git ignore it"
            )
        return real.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; the snapshot of {name} needs it") from None
