"""When a figure is drawn again, and when not."""

import dataclasses
import subprocess
import sys
from importlib import metadata

import pytest

from repro import paths
from repro.contact_sheet import Picture
from repro.report.plots import files
from repro.report.plots.chart import Chart, Line, Panel, spans
from repro.report.plots.plot import DRAWN, SWEEPS, Plot
from repro.report.render import check_tables, write_tables
from tests.report.test_plots import NAMES
from tests.report.test_plots import fill as every_kind

LINE = Line(0, [(0, 1.0), ("exact", None)], [(0, 0.5)])
CHART = Plot("a.svg", SWEEPS, "c", Chart("t", ["n"], [Panel("x", "y", [LINE])]))
SHEET = Plot("a.png", DRAWN, "c", [Picture(1, 2, 1, b"ab")])


def changed(**panel):
    return dataclasses.replace(CHART, content=Chart("t", ["n"], [Panel("x", "y", [LINE], **panel)]))


def test_every_change_of_data_changes_the_hash():
    points = dataclasses.replace(CHART, content=Chart("t", ["n"], [Panel("x", "y", [Line(0, [(0, 1.5)])])]))
    others = [
        changed(log_y=True),
        changed(notes=[(0, "a")]),
        changed(rules=[(1.0, "a")]),
        points,
        dataclasses.replace(CHART, caption="d"),
        dataclasses.replace(SHEET, content=[Picture(2, 1, 1, b"ab")]),
        SHEET,
        CHART,
    ]
    assert len({files.digest(plot) for plot in others}) == len(others)
    assert files.digest(CHART) == files.digest(changed())


@pytest.mark.parametrize("name", ["STYLE", "PAGE_STYLE"])
def test_a_change_of_style_changes_the_hash(name, tmp_path, monkeypatch):
    before = files.digest(CHART)
    other = tmp_path / "style"
    other.write_text(getattr(files, name).read_text().replace("00639c", "00639d"))
    monkeypatch.setattr(files, name, other)
    files._colours.cache_clear()
    assert files.digest(CHART) != before
    files._colours.cache_clear()


@pytest.mark.parametrize("plot", [CHART, SHEET], ids=["svg", "png"])
def test_a_file_of_the_same_data_stays_and_another_is_replaced(plot, tmp_path):
    path = tmp_path / plot.name
    first = files.content(plot, path)
    assert min(files.size(first)) > 0
    path.write_bytes(first[:-5] + b"extra")
    assert files.content(plot, path) == path.read_bytes()
    assert files.content(plot, path, again=True) == first
    path.write_bytes(first.replace(files.digest(plot).encode(), b"0" * 64))
    assert files.content(plot, path) == first
    path.write_bytes(b"")
    assert files.content(plot, path) == first


def edited(house):
    every_kind(house)
    write_tables()
    path = house.results / "plots" / NAMES[0]
    path.write_bytes(path.read_bytes().replace(b"</svg>", b"<!-- by hand --></svg>"))
    return path


def lock(tmp_path, monkeypatch, version):
    monkeypatch.setattr(paths, "SHARED", tmp_path)
    (tmp_path / "requirements.lock").write_text(f"matplotlib=={version}\npillow==0.0\n")


def test_bytes_are_compared_under_the_locked_version_only(house, tmp_path, monkeypatch):
    edited(house)
    lock(tmp_path, monkeypatch, metadata.version("matplotlib"))
    assert any(line.startswith(f"plots/{NAMES[0]} differs") for line in check_tables())
    lock(tmp_path, monkeypatch, "0.0")
    assert not any("plots/" in line for line in check_tables())


def test_another_hash_is_found_whatever_the_version(house, tmp_path, monkeypatch):
    path = edited(house)
    lock(tmp_path, monkeypatch, "0.0")
    digits = files._RECORDED.search(path.read_bytes())[1]
    path.write_bytes(path.read_bytes().replace(digits, b"0" * 64))
    assert any(line.startswith(f"plots/{NAMES[0]} differs") for line in check_tables())


def test_matplotlib_is_imported_only_where_something_is_drawn(house):
    every_kind(house)
    code = (
        "import sys\nfrom repro.report.render import write_tables\nwrite_tables()\n"
        "assert ('matplotlib' in sys.modules) == (sys.argv[1] == 'first'), sys.argv\n"
        "assert 'torch' not in sys.modules\n"
    )
    for turn in ("first", "second"):
        subprocess.run([sys.executable, "-c", code, turn], check=True)


def test_which_axes_are_logarithmic():
    assert spans([1, 31, "exact", None], 30)
    assert not any(spans(values, 30) for values in ([1, 30], [0, 31], [-1, 31], [7], ["a"], []))
