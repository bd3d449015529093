"""A real Slurm cluster for the tests of this folder, and a project of their own on it.

They are skipped, and said to be, where the cluster cannot run: see ``cluster`` in this folder. Each worker of
pytest-xdist has a cluster of its own.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.control import Cluster, own_folder
from tests.slurm.project import Project, make_project

HERE = Path(__file__).parent
LIMIT = 600  # seconds: a test waits for several jobs, each of them some seconds of imports


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks everything in this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(LIMIT))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says why they were skipped, whatever pytest was told to print."""
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if "/slurm/" in f"/{r.nodeid}"]
    for reason in sorted(
        {r.longrepr[2].removeprefix("Skipped: ") for r in skipped if isinstance(r.longrepr, tuple)}
    ):
        terminalreporter.write_line(f"tests/slurm: {len(skipped)} skipped: {reason}")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster that all tests of the session share: node1 and node2. It ends with the session."""
    if sys.platform != "linux":
        pytest.skip("no local Slurm cluster: it needs Linux, as root")
    with own_folder() as folder:
        made = Cluster(folder)
        if reason := made.up():
            pytest.skip(f"no local Slurm cluster: {reason}")
        yield made


@pytest.fixture(autouse=True)
def _leave_it_idle(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test finds an empty queue and both nodes up, however the one before ended."""
    yield
    if "cluster" in request.fixturenames:
        made: Cluster = request.getfixturevalue("cluster")
        made.clear()
        made.boot("node1")
        made.boot("node2")


@pytest.fixture
def project(cluster: Cluster, tmp_path: Path, small_store: Path) -> Project:
    """A project of the test's own, with a tiny recipe and the cluster profile ``local``."""
    return make_project(tmp_path / "project", small_store, cluster)
