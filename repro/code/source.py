"""The version of the code: commit, changes, hash; of an installed wheel the release. No package but PyYAML."""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from repro.code.plugins import plugin_files
from repro.paths import INSTALLED, PROJECT, PROJECT_FILE, configs_dir, project, results_dir

# A change to any of these may change a result; an edited README may not.
SOURCES = ("repro", "configs", "pyproject.toml", "requirements.lock")
SNAPSHOT_FACTS = "snapshot.json"  # in a submission's snapshot: what it was taken from
_PATIENCE_S = 60


@dataclass(frozen=True)
class Source:
    """The version of the code when the process began.

    Attributes:
        commit: of the checkout; None outside git.
        dirty: whether sources differ from it, or files of the user's project from its own; None outside git.
        sha256: over the package's source files, names and contents.
    """

    commit: str | None
    dirty: bool | None
    sha256: str


def source(root: Path = PROJECT) -> Source:
    """The current code below a checkout or snapshot."""
    return Source(*state(root), code_hash(root))


def state(root: Path = PROJECT) -> tuple[str | None, bool | None]:
    """The commit, and whether sources differ from it; (None, None) outside git, and of an installed wheel.

    A submitted job runs from a snapshot, which contains these facts. See also :func:`_own_changes`.
    """
    if facts := _snapshot_facts(root):
        return facts["commit"], facts["dirty"]
    head = git(root, "rev-parse", "HEAD")
    if not head or not git(root, "ls-files", "--", "repro"):  # none, or another's checkout around this one
        return None, None
    return head.decode().strip(), bool(git(root, "status", "--porcelain", "--", *SOURCES)) or _own_changes()


def _own_changes() -> bool | None:
    """Whether plugins, recipes, published numbers or tests of the user's project differ from its own commit.

    A file that git ignores does. None where the project is outside git; False of a checkout without plugins.
    """
    home, names = project(), plugin_files()
    places = [PROJECT_FILE, *(f":(glob){name}{end}" for name in names for end in (".py", "/**/*.py"))]
    if home != PROJECT:
        folders = (configs_dir(), results_dir() / "published", results_dir() / "tests")
        places += [f"{os.path.relpath(folder, home)}/*.yaml" for folder in folders]
    elif not names:
        return False
    changes = git(home, "status", "--porcelain", "--ignored", "-uall", "--", *places)
    return None if changes is None else bool(changes)


def release(root: Path = PROJECT) -> dict[str, str]:
    """Identifies an installed wheel, which has no commit: its version and, if the installer noted it, its SHA-256."""
    if facts := _snapshot_facts(root):
        return dict(facts.get("release", {}))
    if not INSTALLED:
        return {}
    for installed in metadata.distributions(name="repro", path=[str(root)]):
        archive = json.loads(installed.read_text("direct_url.json") or "{}").get("archive_info", {})
        sha256 = archive.get("hashes", {}).get("sha256")
        return {"repro": installed.version} | ({"repro wheel": f"sha256:{sha256}"} if sha256 else {})
    return {}


def is_snapshot(root: Path = PROJECT) -> bool:
    """Whether this code is the snapshot of a submitted job, whose recipes may be older than the checkout's."""
    return (root / SNAPSHOT_FACTS).is_file()


def _snapshot_facts(root: Path) -> dict[str, Any]:
    """Reads the facts of a snapshot's source; empty outside a snapshot."""
    return dict(json.loads((root / SNAPSHOT_FACTS).read_text(encoding="utf-8"))) if is_snapshot(root) else {}


def code_hash(root: Path) -> str:
    """SHA-256 over the package's source files, Python and YAML, names and contents."""
    digest = hashlib.sha256()
    for path in sorted(p for p in (root / "repro").rglob("*") if p.suffix in (".py", ".yaml")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def git(root: Path, *arguments: str) -> bytes | None:
    """The output of git in a folder; None where it is missing or fails. Variables of a hook are ignored."""
    command = ["git", "--no-optional-locks", *arguments]
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        return subprocess.run(
            command, cwd=root, env=env, capture_output=True, check=True, timeout=_PATIENCE_S
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
