"""Charts as matplotlib draws them, read back from the SVG."""

import itertools
import re

import pytest

from repro.report.plots.chart import Chart, Panel, PlotLine
from repro.report.plots.drawing import svg
from repro.report.plots.panels import MARKS, in_powers, spans
from tests.report.svg import marks, root_of, strokes, ticks, words

ODD = "<b> & \x1b[1m $x$"


def drawn(*lines, names=None, title="title", panels=None, **about):
    count = 1 + max((line.look for line in lines), default=0)
    one = Panel("across (s)", "upwards (m)", lines, **about)
    chart = Chart(title, names or [f"line {n}" for n in range(count)], panels or [one])
    return svg(chart, "A <caption>", "0" * 64).decode()


def test_a_panel_says_what_it_shows_as_text():
    displayed = drawn(PlotLine(0, [(1, 1.0), (2, 3.0)]), names=["a"], title="all", settings=True)
    assert {"all", "a", "across (s)", "upwards (m)", "1"} <= set(words(displayed))


def test_markers_lie_above_their_ticks():
    line = PlotLine(0, [(1024 * 2**n, float(n)) for n in range(7)])
    displayed = drawn(line, settings=True)
    across, up = ticks(displayed)
    result = marks(displayed)
    places = {f"{2**n}K": x for n, (_, x, _) in enumerate(result)}
    assert across == {output: pytest.approx(places[output], abs=0.1) for output in across}
    assert len(across) >= 3
    heights = {value: y for value, (_, _, y) in enumerate(result)}
    assert up == {output: pytest.approx(heights[int(output)], abs=0.5) for output in up}
    steps = [b[1] - a[1] for a, b in itertools.pairwise(result)]
    assert steps == pytest.approx([steps[0]] * 6, abs=0.2)


def test_a_logarithmic_height_and_its_ticks():
    displayed = drawn(PlotLine(0, [(n, 10.0 ** (-n)) for n in range(6)]))
    (_, _, places), up = strokes(displayed)[0], ticks(displayed)[1]
    steps = [b[1] - a[1] for a, b in itertools.pairwise(places)]
    assert steps == pytest.approx([steps[0]] * 5, abs=0.2)
    assert {"1", "0.01", "0.0001"} <= set(up)
    assert set(ticks(drawn(PlotLine(0, [(0, 2.0), (1, 80.0)])))[1]) == {"2", "5", "10", "20", "50"}


def test_a_height_from_zero():
    line = PlotLine(0, [(0, 90.0), (1, 100.0)])
    assert "0" not in ticks(drawn(line))[1]
    assert "0" in ticks(drawn(line, from_zero=True))[1]
    assert "0" in ticks(drawn(PlotLine(0, [(0, 0.1), (1, 100.0)]), from_zero=True))[1]


def test_words_stand_behind_the_numbers_and_are_not_joined():
    displayed = drawn(PlotLine(0, [(1, 1.0), (2, 2.0), ("exact", 9.0), ("none", 1.0)]), settings=True)
    ((_, _, places),) = strokes(displayed)
    assert len(places) == 2
    across, _ = ticks(displayed)
    assert across["1"] < across["2"] < across["exact"] < across["none"]
    assert marks(displayed)[2][1] == pytest.approx(across["exact"], abs=0.2)
    assert {"a", "b"} <= set(words(drawn(PlotLine(0, [("a", 1.0), ("b", 2.0)]), settings=True)))


def test_a_line_breaks_where_a_value_is_missing():
    points = [(x, None if x == 50 else float(x)) for x in range(100)]
    (path,) = [stroke for stroke in strokes(drawn(PlotLine(0, points)), whole=True) if stroke.count("L") > 9]
    assert path.count("M") == 2


def test_settings_are_all_marked_and_of_long_curves_some_points():
    points = [(x, float(x)) for x in range(100)]
    assert len(marks(drawn(PlotLine(0, points), settings=True))) == 100
    assert MARKS - 1 <= len(marks(drawn(PlotLine(0, points)))) <= MARKS
    assert len(marks(drawn(PlotLine(0, points[:MARKS])))) == MARKS


def test_thin_lines_are_faint_and_without_marks():
    displayed = drawn(PlotLine(0, [(0, 0.0), (1, 1.0)], thin=True), PlotLine(0, [(0, 1.0), (1, 2.0)]))
    assert sorted(width for _, width, _ in strokes(displayed)) == [0.8, 1.6]
    assert len(marks(displayed)) == 2


def test_twelve_lines_look_different_and_as_their_keys():
    displayed = drawn(*(PlotLine(n, [(0, float(n)), (1, 2.0)]) for n in range(12)))
    styles = re.findall(r'style="([^"]*stroke-width: 1.6[^"]*)"', displayed)
    looks = [re.findall(r"stroke: (#\w+)|stroke-dasharray: ([^;]*)", style) for style in styles]
    assert len(looks) == 24
    assert looks[:12] == looks[12:]
    assert len({str(look) for look in looks[:12]}) == 12


def test_every_title_and_name_lies_within_the_figure():
    one = Panel("x", "y", [PlotLine(0, [(0, 1.0), (1, 2.0)])])
    names = [f"a name of some length {n}" for n in range(9)]
    root = root_of(drawn(names=names, panels=[one, one]))
    keys = {t.text: (float(t.get("x")), float(t.get("y"))) for t in root.iter() if t.text in names}
    assert len(set(keys.values())) == 9
    assert all(x + 6 * len(name) < float(root.get("width")) for name, (x, _) in keys.items())


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_no_figure_is_wider_than_a_page(count):
    title = "A sentence of a test that is far longer than one line of its figure can hold. " * 3
    one = Panel(
        "x", "y", [PlotLine(0, [(0, 1.0), (1, 2.0)])], title=f"{title}\n\n{title}", notes=[(0, title)]
    )
    root = root_of(drawn(names=[], title="", panels=[one] * count))
    assert float(root.get("width")) <= 800
    output = "".join(f" {line}" for line in words(drawn(names=[], title="", panels=[one] * count)))
    assert output.count("far longer") == 9 * count


def test_notes_levels_rules_and_the_shaded_part():
    displayed = drawn(
        PlotLine(0, [(1, 1.0), (10, 3.0)]),
        title="",
        notes=[(0, "one 1.00"), (0, "two 2.00")],
        rules=[(4, "40 %")],
        levels=[(2.0, "a phrase table")],
        shaded=7.5,
    )
    heights = {t.text: float(t.get("y")) for t in root_of(displayed).iter() if t.get("y") and t.text}
    top = min(y for _, _, y in marks(displayed))
    assert heights["one 1.00"] < heights["two 2.00"] < heights["a phrase table"] < top < heights["40 %"]
    assert "opacity: 0.14" in displayed


def test_a_title_is_bold_before_its_empty_line():
    one = Panel("x", "y", [PlotLine(0, [(0, 1.0), (1, 2.0)])], title="A head\n\nthe rest")
    result = {t.text: t.get("style") for t in root_of(drawn(panels=[one])).iter() if t.text}
    assert "font-weight: 700" in result["A head"]
    assert "font-weight" not in result["the rest"]


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0, 1e-9, 1e12])
def test_a_single_value_can_be_drawn(value):
    for points in ([(0, value)], [(0, value), (10, value)]):
        result = marks(drawn(PlotLine(0, points)))
        assert len(result) == len(points)
        assert all(0 < x < 560 and 0 < y < 300 for _, x, y in result)


def test_hostile_names_are_text():
    displayed = drawn(PlotLine(0, [("<i>", 1.0), ("x", 2.0)]), names=[ODD], title=ODD, settings=True)
    output = "<b> & \N{REPLACEMENT CHARACTER}[1m $x$"
    assert words(displayed).count(output) == 2
    assert "<i>" in words(displayed)


def test_which_axes_are_logarithmic():
    assert spans([1, 31], 30)
    assert not any(spans(values, 30) for values in ([1, 30], [0, 31], [-1, 31], [7], []))


@pytest.mark.parametrize(
    ("value", "message"),
    [(0.5, "0.5"), (1, "1"), (512, "512"), (1024, "1K"), (1000, "1,000"), (65536, "64K"), (2**21, "2,048K")],
)
def test_numbers_in_powers_of_two(value, message):
    assert in_powers(value) == message


def test_a_wide_line_is_seen_below_one_that_covers_it():
    points = [(1, 1.0), (2, 3.0)]
    shown = drawn(PlotLine(0, points, wide=True), PlotLine(1, points))
    assert "stroke-width: 7" in shown
    assert shown.index("stroke-width: 7") < shown.rindex("stroke: #c94f00")
