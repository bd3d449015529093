"""Shared by all tests: one thread, no W&B, and fixtures of a project with a trained model."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Before torch is imported: small tensors gain nothing from threads, and results then never depend on their number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from repro.data.prepare import prepare
from repro.data.sets.translation import pairs
from tests.workshop import TINY, Workshop, call, make_workshop


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``-n`` and no ``--dist``, tests are shared as tests/scheduling.py says."""
    from tests.scheduling import ByUnit

    return ByUnit(config, log) if config.getvalue("dist") == "load" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A worker of ``-n`` sees the long tests first; without workers the order is that of the files."""
    if hasattr(config, "workerinput"):
        from tests.scheduling import turn

        items.sort(key=lambda item: turn(item.nodeid))


@pytest.fixture(autouse=True)
def _no_tracking(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test talks to W&B unless it says how."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with ``numbers-en-de/bpe300-n300``, its held-out splits cut short. Do not change it."""
    folder = tmp_path_factory.mktemp("small-store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_DATA", str(folder))
        patch.setattr(pairs, "HELD_OUT_SIZES", {"val": 10, "test": 15})
        prepare("numbers-en-de", vocab_size=300, size=300, report=lambda line: None)
    return folder


@pytest.fixture
def workshop(tmp_path: Path, small_store: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A project of the test's own: published numbers, one tiny recipe, no runs; the data are shared."""
    return make_workshop(tmp_path / "workshop", small_store).enter(monkeypatch)


@dataclass
class TrainedRun:
    """A finished run in a project of its own."""

    workshop: Workshop
    out: str

    @property
    def folder(self) -> Path:
        return next((self.workshop.runs / TINY / "cpu").glob("s1-*"))

    @property
    def run_id(self) -> str:
        return f"{TINY}/cpu/{self.folder.name}"


@pytest.fixture(scope="session")
def _trained_once(tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> TrainedRun:
    made = make_workshop(tmp_path_factory.mktemp("trained") / "workshop", small_store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "disabled")
        made.enter(patch)
        output = call("run", TINY, "--scale", "cpu")
    assert output.code == 0, output.err
    return TrainedRun(made, output.out)


@pytest.fixture
def own_run(_trained_once: TrainedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainedRun:
    """A copy of the finished run's whole project, which a test may damage."""
    root = tmp_path / "copied"
    shutil.copytree(_trained_once.workshop.root, root)
    return TrainedRun(Workshop(root, _trained_once.workshop.data).enter(monkeypatch), _trained_once.out)


@pytest.fixture
def trained(_trained_once: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> TrainedRun:
    """One tiny finished run that all tests share, its project entered. Do not change it."""
    _trained_once.workshop.enter(monkeypatch)
    return _trained_once
