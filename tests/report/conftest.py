from pathlib import Path

import pytest

from tests.report.fakes import House


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "configs"))
    return House(tmp_path)
