import random
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from repro.report.axes import linear
from repro.report.compare import compare
from repro.report.figures import CURVES, DRAWN, Plot
from repro.report.panels import COLOURS, MARKS, Line, Panel, draw
from repro.report.plots import plots
from repro.report.site import figures
from repro.report.site.figures import (
    LEVELS,
    drawing,
    drawings,
    fill,
    path,
    pictures,
    place,
    simplified,
    spots,
)
from repro.report.site.html import Html, tag
from tests.report.markup import read
from tests.report.test_plots import fill as every_kind

NOISY = [(float(i), 50 + 30 * random.Random(i).random()) for i in range(200)]
SMOOTH = [(float(i), 0.01 * i * i) for i in range(200)]
STEEP = [(0.0, 0.0), (0.1, 90.0), (0.2, 0.0), (50.0, 0.0), (50.1, 90.0), (100.0, 90.0)]


def reach(points, tolerance, slack=1e-9):
    """The largest distance, upwards, between a curve and what is kept of it."""
    kept = simplified(points, tolerance)
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert set(kept) <= set(points)
    worst = 0.0
    for x, y in points:
        (x1, y1), (x2, y2) = next((a, b) for a, b in pairwise(kept) if a[0] <= x <= b[0])
        worst = max(worst, abs(y1 + (y2 - y1) * (x - x1) / (x2 - x1) - y))
    assert worst <= tolerance + slack
    return worst


@pytest.mark.parametrize("points", [NOISY, SMOOTH, STEEP])
@pytest.mark.parametrize("tolerance", [0.25, 1.0, 8.0, 100.0])
def test_no_point_is_missed_by_more_than_the_tolerance(points, tolerance):
    reach(points, tolerance)


def test_smooth_curves_need_few_points():
    assert len(simplified(SMOOTH, 1.0)) < 15
    assert reach(SMOOTH, 1.0) > 0.3
    assert simplified([(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)], 0.25) == [(0.0, 1.0), (2.0, 1.0)]


@pytest.mark.parametrize(
    "points", [[], [(1.0, 2.0)], [(1.0, 2.0), (3.0, 4.0)], [(1.0, 2.0), (1.0, 3.0), (1.0, 9.0)]]
)
def test_few_points_and_a_vertical_line_stay(points):
    assert simplified(points, 8.0) == points


def corners(said):
    """A path of relative steps as places."""
    numbers = [float(n) for n in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", said.replace("h0", ""))]
    x = y = 0.0
    found = []
    for across, up in zip(numbers[::2], numbers[1::2], strict=True):
        x, y = x + across, y + up
        found.append((round(x, 1), round(y, 1)))
    return found


@pytest.mark.parametrize("write", [path, spots])
def test_paths_lead_to_the_points(write):
    points = [(62.04, 0.2), (62.5, -0.04), (63.1, 100.0), (63.1, 99.96), (0.0, 0.5), (-3.25, -0.7)]
    assert corners(write(points)) == [
        (round(round(10 * x) / 10, 1), round(round(10 * y) / 10, 1)) for x, y in points
    ]
    assert corners(write(points[:1])) == [(62.0, 0.2)]


def figure(lines, marked=False):
    y = linear(v for line in lines for _, v in line.points if v is not None)
    panel = Panel("steps", "loss <nats>", linear([0.0, 199.0]), y, lines, marked=marked)
    return draw("toy & more", "curves", [f"line {line.look}" for line in lines if not line.thin], [panel])


def drawn(svg, level=LEVELS[0]):
    return read(drawing(ElementTree.fromstring(svg), "A <caption>", level)).one("svg")


def test_a_drawing_says_what_the_file_says():
    made = drawn(figure([Line(0, NOISY), Line(1, SMOOTH)]))
    there = [
        t.text
        for t in ElementTree.fromstring(figure([Line(0, NOISY), Line(1, SMOOTH)])).iter()
        if t.tag.endswith("}text")
    ]
    assert sorted(t.text for t in made.all("text")) == sorted(there)
    assert {"toy & more", "line 0", "line 1", "loss <nats>", "steps"} <= set(there)
    assert (made.get("role"), made.get("aria-label")) == ("img", "A <caption>")
    assert made.get("viewbox") == f"0 0 {made.get('width')} {made.get('height')}"


def test_a_drawing_has_the_colours_of_the_page():
    said = str(
        drawing(ElementTree.fromstring(figure([Line(7, NOISY), Line(1, SMOOTH, thin=True)])), "x", LEVELS[0])
    )
    assert "#" not in re.sub(r"href=\S+", "", said)
    assert "style" not in said
    lines = [p.get("class") for p in read(said).all("path", cls="l")]
    assert lines == ["l k0", "l k1 h", "l k1 d1"]  # the legend's, the faint one behind, the dashed one


def test_every_line_keeps_its_ends():
    made = drawn(figure([Line(0, NOISY)]), (8.0, True))
    line = made.all("path", cls="l")[-1]
    exact = drawn(figure([Line(0, NOISY)]), (0.0, True)).all("path", cls="l")[-1]
    ends = [corners(p.get("d")) for p in (line, exact)]
    assert (ends[0][0], ends[0][-1]) == (ends[1][0], ends[1][-1])
    assert len(ends[0]) < len(ends[1]) == len(NOISY)


def test_lines_of_few_points_keep_and_mark_them_all():
    few = NOISY[:20]
    line = drawn(figure([Line(0, few)]), (8.0, True)).all("path", cls="z")
    assert [len(corners(p.get("d"))) for p in line] == [20]


def test_single_seeds_are_left_out_where_room_is_scarce():
    svg = figure([Line(0, NOISY, thin=True), Line(0, SMOOTH)])
    assert [len(drawn(svg, (1.0, seeds)).all("path", cls="h")) for seeds in (True, False)] == [1, 0]


def test_marks_refer_to_shapes_of_the_page():
    made = drawn(
        figure([Line(i, [(0.0, float(i)), (100.0, 5.0 + i)]) for i in range(len(MARKS))], marked=True)
    )
    shapes = {e.get("id") for e in read(figures.marks()).walk()}
    used = {u.get("href") for u in made.all("use")}
    assert used == {f"#mark{i}" for i in range(len(MARKS))}
    assert {u.removeprefix("#") for u in used} <= shapes
    assert {f"dot{i}" for i in range(len(COLOURS))} <= shapes


def test_what_it_cannot_draw_is_refused():
    with pytest.raises(ValueError, match="<image>"):
        drawing(ElementTree.fromstring("<svg width='1' height='1'><image/></svg>"), "x", LEVELS[0])


def many(n):
    return [Plot(f"toy--{i}.svg", CURVES, f"curve {i}", figure([Line(0, NOISY)]).encode()) for i in range(n)]


def test_the_room_decides_how_exactly_they_are_drawn():
    exact = drawings(many(3), 10**9)
    total = sum(map(len, exact.values()))
    coarse = drawings(many(3), total - 1)
    assert sum(map(len, coarse.values())) < total
    assert list(coarse) == list(exact)
    least = [sum(map(len, drawings(many(1), room).values())) for room in (10**9, 2500, 0)]
    assert least[0] > 2500 >= least[1] > least[2] == 0


def test_the_page_never_exceeds_its_limit_and_says_where_the_rest_is():
    page = Html(f"<p>{''.join(map(place, many(5)))}</p>")
    for limit in (1000, 5000, 9000, 10**6):
        said = fill(page, many(5), limit)
        here, links = len(read(said).all("svg")), [a.get("href") for a in read(said).all("a")]
        assert len(said) <= limit
        assert links == [f"plots/toy--{i}.svg" for i in range(here, 5)]
        assert "<!--" not in said
    assert here == 5


def test_a_text_cannot_take_a_figures_place():
    (plot,) = many(1)
    assert "<svg" not in fill(tag("p", f"<!--{plot.name}-->"), [plot], 10**6)


def test_pictures_are_within_the_page_as_far_as_there_is_room(house):
    every_kind(house)
    found = [p for p in plots(compare(), house.results / "runs") if p.kind == DRAWN]
    (made,) = pictures(found).values()
    image = read(made).one("img")
    assert image.get("src").startswith("data:image/png;base64,")
    assert "drawn from the model" in image.get("alt")
    assert pictures(found, room=10) == {}


def test_every_kind_of_figure_can_be_drawn(house):
    every_kind(house)
    found = [p for p in plots(compare(), house.results / "runs") if p.name.endswith(".svg")]
    assert len(drawings(found, 10**9)) == len(found) == 5
