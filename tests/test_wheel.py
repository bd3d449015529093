"""The wheel works in any folder and writes nothing beside the package.

Other tests import ``repro`` from the checkout. These run the wheel that is installed, as in ``.ci/run``; where none is,
they build the source distribution, a wheel from it, and install that into a temporary folder.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest

from tests.workshop import PROJECT

pytestmark = pytest.mark.slow
SOURCES = (
    "repro", "configs", "slurm", "results/competence.json", "results/parity.json", "results/sizes.json",
    "results/published", "results/runs", "results/tests",
    "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "requirements.lock",
)  # fmt: skip
EXPERIMENT = "reformer/duplication@lsh-2"
OWN = "mine/duplication@lsh-2"  # the example of `repro init`
TAKE_SNAPSHOT = """
from pathlib import Path
from repro.launch.slurm.snapshot import read_sources, write_snapshot
write_snapshot(Path("code"), read_sources()[0])
"""


def installed_wheel() -> Path | None:
    """The folder that an installed wheel lies in; None in an editable install."""
    folders = (Path(str(one.locate_file(""))) for one in metadata.distributions(name="repro"))
    return next((folder for folder in folders if (folder / "repro" / "_shared").is_dir()), None)


def build(sources: Path, target: Path) -> Path:
    """Builds and installs a wheel, by way of a source distribution; returns the folder that it lies in."""
    code = f"from setuptools.build_meta import build_sdist; build_sdist({str(target)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=sources, check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index"]
    (sdist,) = target.glob("*.tar.gz")
    subprocess.run(
        [*pip, "wheel", *offline, "--no-build-isolation", "-w", target, sdist],
        check=True,
        capture_output=True,
    )
    (wheel,) = target.glob("*.whl")
    subprocess.run(
        [*pip, "install", *offline, "--target", target / "site", wheel], check=True, capture_output=True
    )
    return target / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = installed_wheel()
    if result is not None:
        return result
    pytest.importorskip("setuptools", minversion="77")
    sources = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, sources / name)
    return build(sources, tmp_path_factory.mktemp("wheel"))


def python(code: Path, *words: str) -> str:
    """Runs Python on the package in a folder; returns what it writes to stdout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REPRO_")}
    env: Mapping[str, str] = {**kept, "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-P", *words], env=env, check=False, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def repro(code: Path, *words: str) -> str:
    return python(code, "-m", "repro", *words)


def contents(site: Path) -> str:
    """A hash over the names of everything beside the package, and over the files of the package."""
    files = sorted(path for path in (site / "repro").rglob("*") if path.is_file() and path.suffix != ".pyc")
    digests = [(str(path), hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
    return repr((sorted(path.name for path in site.iterdir()), digests))


@pytest.fixture
def empty(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, entered."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def rows(code: Path) -> list[dict[str, object]]:
    result: list[dict[str, object]] = json.loads(repro(code, "list", "--json"))
    return result


def test_what_is_read_needs_no_recipe_or_record_of_the_folder(site: Path, empty: Path) -> None:
    """The rows are those of the checkout; the scripts are there; nothing is written."""
    before = contents(site)
    assert rows(site) == rows(PROJECT)
    environment = empty / ".venv/bin/activate"  # jobs source it, and `submit` sees that it is there
    environment.parent.mkdir(parents=True)
    environment.touch()
    script = repro(
        site, "submit", EXPERIMENT, "--scale", "cpu", "--seeds", "101-102", "--cluster", "cpu", "--dry-run"
    )
    assert "--scale cpu --seed 102) run_dir=" in script
    assert files_below(empty) == {".venv/bin/activate"}
    assert contents(site) == before


def test_a_project_is_made_and_run(site: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example recipe runs; record, ledger and tables lie in the project; a job's snapshot sees the same."""
    before = contents(site)
    repro(site, "init", "mine")
    monkeypatch.chdir("mine")
    repro(site, "run", OWN, "--seed", "100", "--trainer.max_steps", "2")
    (name,) = (name for name in files_below(Path("results/runs")) if name.endswith(".json"))
    record = json.loads((Path("results/runs") / name).read_text(encoding="utf-8"))
    assert (record["commit"], record["dirty"]) == (None, None)
    assert record["versions"]["repro"]
    (origin,) = site.glob("repro-*.dist-info/direct_url.json")
    noted = json.loads(origin.read_text())["archive_info"].get("hashes")  # pip does since 23.1
    assert ("repro wheel" in record["versions"]) == bool(noted)
    repro(site, "tables")
    assert files_below(Path("results/runs")) == {name, "LEDGER.tsv"}
    assert record["config_hash"][:8] in Path("results/tables/runs.md").read_text(encoding="utf-8")
    assert repro(site, "tables", "--check") == "results are up to date\n"

    python(site, "-c", TAKE_SNAPSHOT)
    snapshot = Path("code").absolute()
    assert (snapshot / "configs" / "mine" / "duplication.yaml").is_file()
    assert json.loads((snapshot / "snapshot.json").read_text())["release"] == {
        key: value for key, value in record["versions"].items() if key.startswith("repro")
    }
    assert repro(snapshot, "tables", "--check") == "results are up to date\n"
    assert contents(site) == before
