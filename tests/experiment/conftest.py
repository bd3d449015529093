"""The program that forks the ranks of experiments, started once, and those who ask it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.experiment.meta_recipes import write_sizes
from tests.experiment.runner import Forks, Runner
from tests.workshop import BITS, COMPILED, STICKY, STREAM, TALK


@pytest.fixture(scope="session")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder for :func:`tests.experiment.meta_recipes.small`."""
    folder = tmp_path_factory.mktemp("sizes")
    write_sizes(folder)
    return folder


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


@pytest.fixture(scope="session")
def runner(forks: Forks, tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Runner:
    return Runner(forks, tmp_path_factory.mktemp("attempts"), small_store)


@pytest.fixture(scope="session")
def streams(forks: Forks, tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Runner:
    """Runs of a language model with a memory."""
    return Runner(forks, tmp_path_factory.mktemp("streams"), small_store, STREAM)


@pytest.fixture(scope="session")
def compiled(forks: Forks, tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Runner:
    """Compiled runs of that model."""
    return Runner(forks, tmp_path_factory.mktemp("compiled"), small_store, COMPILED)


@pytest.fixture(scope="session")
def sticky(forks: Forks, tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Runner:
    """Runs of a language model with a sticky continuous memory."""
    return Runner(forks, tmp_path_factory.mktemp("sticky"), small_store, STICKY)


@pytest.fixture(scope="session")
def talk(forks: Forks, tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Runner:
    """Runs on conversations, each with a memory of its own."""
    return Runner(forks, tmp_path_factory.mktemp("talk"), small_store, TALK)


@pytest.fixture(scope="session")
def bits(forks: Forks, tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Runner:
    """Runs of a classifier over a frozen body."""
    return Runner(forks, tmp_path_factory.mktemp("bits"), small_store, BITS)
