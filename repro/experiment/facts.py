"""Facts about where a run ran: commit, versions, hardware, memory. No host, user or path names."""

import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from repro.paths import PROJECT

PACKAGES = (
    "torch",
    "lightning",
    "jsonargparse",
    "numpy",
    "tokenizers",
    "sentencepiece",
    "sacrebleu",
    "datasets",
    "wandb",
)
# A change to any of these may change a result; an edited README may not.
SOURCES = ("repro", "configs", "pyproject.toml", "requirements.lock")


@dataclass(frozen=True)
class Source:
    """The code of a run, as it was when the process began.

    Attributes:
        commit: of the checkout; None outside git.
        dirty: whether sources differ from it; None outside git.
        sha256: over the package's source files, names and contents.
    """

    commit: str | None
    dirty: bool | None
    sha256: str


def source() -> Source:
    """What the code is now. A submitted job runs from a snapshot, which says what it was taken from."""
    snapshot = PROJECT / "snapshot.json"
    if snapshot.is_file():
        said = json.loads(snapshot.read_text(encoding="utf-8"))
        return Source(said["commit"], said["dirty"], code_hash(PROJECT))
    head = _git("rev-parse", "HEAD")
    dirty = None if head is None else bool(_git("status", "--porcelain", "--", *SOURCES))
    return Source(head, dirty, code_hash(PROJECT))


def code_hash(root: Path) -> str:
    """SHA-256 over the package's source files below a checkout or snapshot, names and contents."""
    digest = hashlib.sha256()
    for path in sorted((root / "repro").rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that can change a number."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def hardware(devices: int, nodes: int) -> dict[str, Any]:
    """The device's model name and how many took part."""
    if torch.cuda.is_available():
        return {"device": torch.cuda.get_device_name(), "count": devices, "nodes": nodes}
    return {"device": _cpu_name(), "count": devices, "nodes": nodes, "threads": torch.get_num_threads()}


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return " ".join(line.split(":", 1)[1].split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def peak_bytes() -> int:
    """Most memory in use at once: of the GPU where there is one, else resident in the process."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    scale = 1 if os.uname().sysname == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
