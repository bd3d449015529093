"""The program that runs and interrupts experiments, started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.experiment.runner import Runner
from tests.workshop import BITS, STREAM


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Iterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("attempts"), small_store)
    yield made
    made.close()


@pytest.fixture(scope="session")
def streams(tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Iterator[Runner]:
    """The same for a language model with a memory."""
    made = Runner(tmp_path_factory.mktemp("streams"), small_store, STREAM)
    yield made
    made.close()


@pytest.fixture(scope="session")
def bits(tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Iterator[Runner]:
    """The same for a classifier over a frozen body."""
    made = Runner(tmp_path_factory.mktemp("bits"), small_store, BITS)
    yield made
    made.close()
