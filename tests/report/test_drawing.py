"""Files that matplotlib draws."""

import re

import matplotlib
import pytest

from repro.evidence.declared.outcomes import Effect
from repro.report.plots.chart import Chart, Forest, Panel, PlotLine
from repro.report.plots.drawing import DARK, STYLE, drawn, svg
from repro.report.plots.plot import SWEEPS, Plot
from tests.report.svg import root_of

CHART = Chart("t", ["a", "b"], [Panel("x", "y", [PlotLine(n, [(0, 1.0), (1, 2.0)]) for n in range(2)])])
FOREST = Forest([("says", True, [Effect(("a", "b"), 1.0, 0.5, 1.5, None)])])
BOTH = pytest.mark.parametrize("content", [CHART, FOREST], ids=["chart", "forest"])


@BOTH
def test_a_figure_is_named_carries_the_hash_and_is_as_large_as_a_page(content):
    displayed = svg(content, "A <caption> \x1b[1m", "a1" * 32).decode()
    root = root_of(displayed)
    assert root.get("data-sha256") == "a1" * 32
    assert root.get("aria-label") == "A <caption> \N{REPLACEMENT CHARACTER}[1m"
    assert 400 < float(root.get("width")) <= 800


@BOTH
def test_every_colour_has_one_for_dark_pages(content):
    displayed = svg(content, "c", "0" * 64).decode()
    style, _, rest = displayed.partition("</style>")
    used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", rest))
    assert len(used) >= 5
    assert used <= set(DARK)
    assert all(f'[style*="fill: {colour}"]{{fill:{DARK[colour]}!important}}' in style for colour in used)


def test_every_colour_of_the_style_is_known():
    assert {f"#{digits}" for digits in re.findall(r"\b[0-9a-f]{6}\b", STYLE.read_text())} <= set(DARK)


@BOTH
def test_the_same_data_give_the_same_bytes_whatever_the_users_settings(content):
    first = svg(content, "c", "0" * 64)
    with matplotlib.rc_context({"lines.linewidth": 9.0, "font.size": 30}):
        assert svg(content, "c", "0" * 64) == first
    assert not re.search(rb"\d{4}-\d\d-\d\dT", first)


@BOTH
def test_a_pdf_is_the_same_for_the_same_data(content):
    plot = Plot("a.svg", SWEEPS, "c", content)
    assert drawn(plot, ".pdf").startswith(b"%PDF")
    assert drawn(plot, ".pdf") == drawn(plot, ".pdf")
