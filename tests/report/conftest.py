import html
from pathlib import Path

import pytest

from repro.evidence.declared import gate
from repro.evidence.text import clean
from repro.report.plots import files
from tests.report.fakes import House

_drawn = files._drawn


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """A small house whose figures are not drawn: each is an empty SVG with its hash, in no time."""
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "configs"))
    monkeypatch.setattr(files, "_drawn", _empty)
    monkeypatch.setattr(
        gate, "UNTRAINED", 100
    )  # updates of the records, most of whose tests are tuned by nothing
    return House(tmp_path)


@pytest.fixture
def drawn(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """A small house with figures as they are."""
    monkeypatch.setattr(files, "_drawn", _drawn)
    return house


def _empty(plot: files.Plot, wanted: str) -> bytes:
    label = html.escape(clean(plot.caption))
    return f'<svg role="img" aria-label="{label}" data-sha256="{wanted}" width="9" height="9">\n</svg>\n'.encode()
