"""Figures are drawn again only when their data change."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from repro.evidence.declared.outcomes import Effect
from repro.report.plots import files
from repro.report.plots.chart import Chart, Forest, Panel, PlotLine
from repro.report.plots.plot import EFFECTS, SWEEPS, Plot

LINE = PlotLine(0, [(0, 1.0), ("exact", None)])
CHART = Plot("a.svg", SWEEPS, "c", Chart("t", ["n"], [Panel("x", "y", [LINE])]))
FOREST = Plot("f.svg", EFFECTS, "c", Forest([("says", True, [Effect(("a", "b"), 1.0, None, None, None)])]))


def sha256(plot, monkeypatch):
    """The hash that the file of a figure would carry."""
    with monkeypatch.context() as patch:
        patch.setattr(files, "_drawn", lambda plot, sha256: sha256)
        return files.content(plot, Path("missing"))


def changed(**panel):
    return dataclasses.replace(CHART, content=Chart("t", ["n"], [Panel("x", "y", [LINE], **panel)]))


def test_every_change_of_data_changes_the_hash(monkeypatch):
    points = dataclasses.replace(
        CHART, content=Chart("t", ["n"], [Panel("x", "y", [PlotLine(0, [(0, 1.5)])])])
    )
    others = [
        changed(settings=True),
        changed(notes=[(0, "a")]),
        changed(rules=[(1.0, "a")]),
        points,
        dataclasses.replace(CHART, caption="d"),
        FOREST,
        CHART,
    ]
    assert len({sha256(plot, monkeypatch) for plot in others}) == len(others)
    assert sha256(CHART, monkeypatch) == sha256(changed(), monkeypatch)


def test_a_change_of_style_changes_the_hash(monkeypatch):
    before = sha256(CHART, monkeypatch)
    monkeypatch.setattr(files, "STYLE_FILES", files.STYLE_FILES[1:])
    files._style.cache_clear()
    assert sha256(CHART, monkeypatch) != before
    files._style.cache_clear()


@pytest.mark.parametrize("plot", [CHART, FOREST], ids=["chart", "forest"])
def test_a_file_of_the_same_data_stays_and_another_is_replaced(plot, tmp_path, monkeypatch):
    path = tmp_path / plot.name
    first = files.content(plot, path)
    path.write_bytes(first[:-5] + b"extra")
    assert files.content(plot, path) == path.read_bytes()
    path.write_bytes(first.replace(sha256(plot, monkeypatch).encode(), b"0" * 64))
    assert files.content(plot, path) == first
    path.write_bytes(b"")
    assert files.content(plot, path) == first


def test_matplotlib_is_imported_only_where_something_is_drawn(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.report.test_files import CHART, files\n"
        "path = Path(sys.argv[1])\npath.write_bytes(files.content(CHART, path))\n"
        "assert ('matplotlib' in sys.modules) == (sys.argv[2] == 'first'), sys.argv\n"
        "assert 'torch' not in sys.modules\n"
    )
    for turn in ("first", "second"):
        subprocess.run([sys.executable, "-c", code, tmp_path / "a.svg", turn], check=True)
