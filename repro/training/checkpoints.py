"""Reliable checkpoint files: written atomically, with a manifest, verified before use.

A checkpoint is ``step-00001500.ckpt`` with its manifest ``step-00001500.ckpt.json`` (SHA-256, size), which is
written last: a file without one was never finished. Files are read with ``weights_only=True``, always.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import torch
from lightning.pytorch.plugins import CheckpointIO

from repro.errors import ReproError, UserError
from repro.record import replacing, write_atomic
from repro.tasks.ranks import by_rank_0

SUFFIX = ".ckpt"
_BLOCK = 1 << 20


def checkpoint_path(folder: Path, step: int) -> Path:
    """The path of the checkpoint of a step."""
    return folder / f"step-{step:08d}{SUFFIX}"


def step_of(path: Path) -> int:
    """The step of a checkpoint, from its name."""
    return int(path.name.removesuffix(SUFFIX).rpartition("-")[2])


def checkpoints(folder: Path, kind: str = "step") -> list[Path]:
    """Checkpoint files of a run, finished or not, oldest first; files without a number are left out."""
    paths = folder.glob(f"{kind}-*{SUFFIX}")
    return sorted(path for path in paths if path.stem.removeprefix(f"{kind}-").isdecimal())


def manifest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a checkpoint: temporary file in the same folder, fsync, rename, manifest.

    Killed at any point, it leaves the checkpoints that were there before as they were.

    Raises:
        ReproError: no space left, or any other failure of the system; nothing half-written stays under a name
            that is read.
    """
    counted: _Counted | None = None
    try:
        with replacing(path) as file:
            counted = _Counted(file)
            torch.save(dict(content), counted)  # type: ignore[arg-type]  # any file that is written in order
        if path.stat().st_size != counted.bytes:
            raise OSError(errno.EIO, "the file does not have the size that was written")
    except (OSError, RuntimeError) as error:  # torch wraps what goes wrong below it
        raise ReproError(_complaint(path, error, counted)) from None
    proof = {"bytes": counted.bytes, "sha256": counted.digest.hexdigest()}
    write_atomic(manifest_path(path), (json.dumps(proof) + "\n").encode())


class _Counted:
    """A file that counts and hashes what is written to it, and remembers what went wrong."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.bytes = 0
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:
        try:
            self._file.write(data)
        except OSError as error:
            self.error = error
            raise
        self.digest.update(data)
        size = memoryview(data).nbytes
        self.bytes += size
        return size

    def flush(self) -> None:
        self._file.flush()


def _complaint(path: Path, error: Exception, counted: _Counted | None) -> str:
    cause = counted.error if counted is not None and counted.error is not None else error
    if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"no space left for the checkpoint {path}; the one before it is intact: free some space and run the "
            "same command again"
        )
    reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return f"cannot write the checkpoint {path}: {' '.join(reason.split())[:200]}"


def fault(path: Path) -> str | None:
    """The fault of a checkpoint file, or None if its size and hash match the manifest."""
    try:
        proof = json.loads(manifest_path(path).read_text(encoding="utf-8"))
        size, digest = int(proof["bytes"]), str(proof["sha256"])
    except FileNotFoundError:
        return "it has no manifest, so it was never finished"
    except (OSError, ValueError, KeyError, TypeError):
        return "its manifest cannot be read"
    try:
        actual = path.stat().st_size
        if actual != size:
            return f"it has {actual} bytes, not {size}"
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                return "its SHA-256 is not that of the manifest"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return None


def read(path: Path, mmap: bool = False) -> dict[str, Any]:
    """Loads a checkpoint or a final model onto the CPU; its hash is not checked here, see :func:`fault`.

    Args:
        path: the file.
        mmap: map tensors from the file instead of reading them, for a look at the rest.

    Raises:
        UserError: missing, damaged, or holding more than tensors and plain values.
    """
    remedy = "delete it to continue without it"
    if path.suffix != SUFFIX:  # a final model
        remedy = "restore it from a copy, or delete the run's folder and run it again"
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap or None)
    except FileNotFoundError:
        raise UserError(f"no such checkpoint: {path}") from None
    except Exception as error:  # torch raises many kinds for damaged files
        reason = re.split(r"\.\s|\n", str(error))[0] or type(error).__name__
        raise UserError(f"{path} is not a readable checkpoint ({reason}); {remedy}") from None
    if not isinstance(loaded, dict) or not isinstance(loaded.get("state_dict"), dict):
        raise UserError(f"{path} is not a checkpoint: it has no state_dict; {remedy}")
    return loaded


def await_files(paths: Iterable[Path], seconds: float = 60.0) -> None:
    """Waits until files that another node wrote are seen here; network file systems remember what was missing.

    Files that are still missing then are reported by the reader.
    """
    end = time.monotonic() + seconds
    for path in paths:
        while manifest_path(path).name not in os.listdir(path.parent) and time.monotonic() < end:
            time.sleep(0.1)


def remove(path: Path) -> None:
    """Deletes a checkpoint, its manifest first: half deleted, it is not taken for a good one."""
    manifest_path(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def lighten(path: Path) -> None:
    """Takes the optimiser's state out of a checkpoint from which no training goes on.

    Raises:
        ReproError: as :func:`write`; the checkpoint is as before.
    """
    content = read(path)
    if content.pop("optimizer_states", None) is not None:
        write(path, content)


def set_aside(path: Path) -> Path:
    """Renames a checkpoint that must not be used, so that it can be looked at; returns its new path."""
    aside = path.with_name(f"{path.name}.damaged")
    with contextlib.suppress(FileNotFoundError):
        os.replace(manifest_path(path), manifest_path(aside))
    os.replace(path, aside)
    return aside


class DurableIO(CheckpointIO):
    """Lightning's way to checkpoint files, through :func:`write` and :func:`read`; rank 0 verifies for all.

    Attributes:
        failure: what went wrong in the last save, or None. It is not raised inside Lightning's save, which has a
            barrier behind it where other ranks would wait for ever; the saver checks afterwards, on all ranks together.
    """

    def __init__(self) -> None:
        self.failure: str | None = None

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: object = None
    ) -> None:
        self.failure = None
        try:
            write(Path(path), checkpoint)
        except ReproError as error:
            self.failure = str(error)

    def load_checkpoint(
        self, path: str | Path, map_location: object = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        wrong = by_rank_0(lambda: fault(Path(path)))
        if wrong is not None:
            raise UserError(f"{path} is damaged: {wrong}")
        return read(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        remove(Path(path))
