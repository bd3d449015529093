"""Reads files, writes them atomically, and says which rank of a job writes them. Needs the standard library only."""

import contextlib
import errno
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from repro.errors import ReproError, UserError
from repro.paths import files_in, results_dirs

Row = TypeVar("Row")

NOT_WRITABLE = (
    errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOENT,
)  # fmt: skip
# Errors of a file system without locks.
NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)
RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")  # as Lightning reads them


def is_leader() -> bool:
    """Whether this process is rank 0 of its job, also before the ranks are joined."""
    lightning = sys.modules.get("lightning.pytorch.utilities.rank_zero")
    joined = getattr(lightning.rank_zero_only, "rank", 0) if lightning else 0
    started = next((os.environ[name] for name in RANKS if os.environ.get(name)), 0)
    return not (joined or int(started) or int(os.environ.get("NODE_RANK") or 0))


def lock(file: IO[Any], operation: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> bool:
    """Takes a lock on an open file.

    Returns:
        Whether it was taken: False where another process holds it and ``operation`` does not wait. True where the file
        system has no locks.

    Raises:
        OSError: for any other reason.
    """
    try:
        fcntl.flock(file, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


def has_locks(file: IO[Any]) -> bool:
    """Whether the file system of an open file has locks, without which two processes may write one run."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in NO_LOCKS
    return True


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        UserError: there is no such file, or it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def read_rows(name: str, remedy: str, kind: Callable[..., Row]) -> list[Row]:
    """The rows of a generated file in the first folder of results that has it; none where no folder has it.

    Args:
        name: of the file: a JSON array of objects, or ``.jsonl``, an object a line.
        remedy: how the file is made again.
        kind: makes a row of the members of an object.

    Raises:
        UserError: the file is damaged; names the remedy.
    """
    path = files_in(results_dirs(), name).get(name)
    if path is None:
        return []
    text = read_text(path)
    try:
        rows = map(json.loads, text.splitlines()) if path.suffix == ".jsonl" else json.loads(text)
        return [kind(**row) for row in rows]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged: {error!s:.80}; {remedy}") from None


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all.

    Raises:
        UserError, ReproError: as :func:`writing`.
    """
    with writing(path), replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an error of writing a file into one line.

    Raises:
        UserError: the folder cannot be written to (exit code 2).
        ReproError: the disk is full, or any other failure of the system.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NOT_WRITABLE:
            raise UserError(
                f"cannot write {path}: {error.strerror}; make the folder writable or name another path"
            ) from None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ReproError(
                f"no space left to write {path}; free some and run the same command again"
            ) from None
        raise ReproError(f"cannot write {path}: {error.strerror}") from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Opens a temporary file that replaces the path once it is complete and on disk (fsync, rename).

    The path is unchanged if the block ends early.

    Raises:
        OSError: of the system.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
        sync_folder(path.parent)
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def sync_folder(folder: Path) -> None:
    """Syncs a folder, so that a rename survives a power failure. Not every file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lets one process at a time into the block, for each folder; all at once where the system has no locks."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(open(folder / ".lock", "w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
