"""A data folder per test and one small prepared store for all."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro.data.prepare import prepare


@pytest.fixture(scope="session", autouse=True)
def _no_fsync() -> Iterator[None]:
    """Waiting for the disk tests nothing and takes a second per store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder."""
    folder = tmp_path / "data"
    monkeypatch.setenv("REPRO_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def _prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_DATA", str(folder))
        prepare("numbers-en-de", vocab_size=300, size=300, report=lambda line: None)
    return folder


@pytest.fixture
def numbers_store(_prepared: Path, data_folder: Path) -> Path:
    """A data folder with ``numbers-en-de/bpe300-n300`` in it, a copy that a test may damage."""
    shutil.copytree(_prepared, data_folder)
    return data_folder / "numbers-en-de" / "bpe300-n300"
