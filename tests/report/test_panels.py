import pytest

from repro.report.axes import linear, of_settings
from repro.report.panels import DASHES, HEIGHT, MARKED, WIDTH, Line, Note, Panel, draw
from tests.report.svg import dots, labels, lines, marks, panels, root_of, words


def panel(*drawn, **changes):
    points = [p for line in drawn for p in [*line.points, *line.dots]]
    x, y = of_settings(x for x, _ in points), linear(y for _, y in points if y is not None)
    return Panel("across", "upwards", x, y, drawn, **changes)


def test_a_panel_says_what_its_axes_are():
    said = words(draw("title", "what", ["a"], [panel(Line(0, [(1, 1.0), (2, 3.0)]), heading="head")]))
    assert {"title", "a", "across", "upwards", "head"} <= set(said)


def test_marks_lie_above_their_ticks():
    line = Line(0, [(1024 * 2**n, float(n)) for n in range(7)])
    (found,) = panels(draw("t", "w", ["a"], [panel(line, marked=True)]))
    below, left = labels(found)
    assert [below[f"{2**n}K"] for n in range(7)] == [x for _, x, _ in marks(found)]
    heights = {value: y for value, (_, _, y) in enumerate(marks(found))}
    assert {float(text): y for text, y in left.items()} == {v: heights[v] for v in (0, 2, 4, 6)}


def test_words_are_marked_behind_a_rule_but_not_joined():
    line = Line(0, [(1, 1.0), (2, 2.0), ("exact", 9.0)])
    (found,) = panels(draw("t", "w", ["a"], [panel(line, marked=True)]))
    (joined,) = lines(found)
    assert len(joined) == 2
    below, _ = labels(found)
    assert below["1"] < below["2"] < below["exact"]
    assert marks(found)[2][1] == below["exact"]
    upright = [e for e in found if e.get("class") == "grid" and e.get("x1") == e.get("x2")]
    assert [below["2"] < float(e.get("x1")) < below["exact"] for e in upright] == [True]


def test_lines_that_share_a_words_place_stand_apart():
    drawn = [Line(look, [(1, 5.0), ("exact", 5.0)], [("exact", 5.0)]) for look in range(4)]
    (found,) = panels(draw("t", "w", list("abcd"), [panel(*drawn, marked=True)]))
    there = [x for _, x, _ in marks(found)]
    assert len(set(there[::2])) == 1
    assert len(set(there[1::2])) == 4
    assert {x for x, _ in dots(found)} == set(there[1::2])  # seeds with their means
    assert sum(there[1::2]) / 4 == pytest.approx(labels(found)[0]["exact"], abs=0.1)


def test_a_line_breaks_where_a_value_is_missing():
    line = Line(0, [(0, 1.0), (1, 2.0), (2, None), (3, 4.0)])
    (found,) = panels(draw("t", "w", ["a"], [panel(line)]))
    assert [len(stroke) for stroke in lines(found)] == [2, 1]


def test_few_points_are_circles_and_many_are_not():
    for n, circles in ((MARKED, MARKED), (MARKED + 1, 0)):
        svg = draw("t", "w", ["a"], [panel(Line(0, [(x, float(x)) for x in range(n)]))])
        assert svg.count("<circle") == circles


def test_thin_lines_are_faint_and_behind():
    svg = draw(
        "t", "w", ["a"], [panel(Line(0, [(0, 1.0), (1, 2.0)]), Line(0, [(0, 0.0), (1, 1.0)], thin=True))]
    )
    (found,) = panels(svg)
    assert lines(found)[0] == lines(found, thin=True)[0]
    assert len(lines(found, thin=False)) == 1
    assert svg.count("<circle") == 2  # of the line that is not thin


def test_the_legend_takes_as_many_rows_as_its_names_need():
    one = panel(Line(0, [(0, 1.0), (1, 2.0)]))
    names = [f"a name of some length {n}" for n in range(9)]
    root = root_of(draw("t", "w", names, [one, one]))
    keys = {t.text: (float(t.get("x")), float(t.get("y"))) for t in root if t.text in names}
    assert list(keys) == names
    width, top = (
        float(root.get("width")),
        min(float(g.get("transform").split()[1][:-1]) for g in root.iter() if g.tag.endswith("}g")),
    )
    assert all(x + 6 * len(name) < width for name, (x, _) in keys.items())
    assert len({y for _, y in keys.values()}) > 2
    assert max(y for _, y in keys.values()) < top
    assert len(set(keys.values())) == 9


def test_a_long_title_widens_the_figure():
    one = panel(Line(0, [(0, 1.0), (1, 2.0)]))
    assert float(root_of(draw("t", "w", [], [one])).get("width")) == WIDTH
    assert float(root_of(draw("t" * 80, "w", [], [one])).get("width")) >= 80 * 8


def test_eight_lines_look_different_and_as_their_keys():
    drawn = [Line(look, [(0, float(look)), (1, 2.0)]) for look in range(8)]
    svg = draw("t", "w", [f"line {n}" for n in range(8)], [panel(*drawn, marked=True)])
    (found,) = panels(svg)
    looks = [(e.get("stroke"), e.get("stroke-dasharray")) for e in found.iter() if e.tag.endswith("polyline")]
    assert len(set(looks)) == 8
    keys = [(e.get("stroke"), e.get("stroke-dasharray")) for e in root_of(svg) if e.get("stroke")]
    assert keys == looks
    assert DASHES[0] == ""
    shapes = {(e.get("d"), e.get("fill")) for e in found.iter() if e.get("transform") and e.get("d")}
    assert len(shapes) == 8


def test_panels_stand_beside_and_below_each_other():
    one = panel(Line(0, [(0, 1.0), (1, 2.0)]))
    found = panels(draw("t", "w", ["a"], [one] * 4))
    assert len({g.get("transform") for g in found}) == 4


def test_hostile_names_are_text():
    odd = "<b> & \x1b[1m"
    one = panel(Line(0, [("<i>", 1.0), ("x", 2.0)]), heading=odd)
    said = words(draw(odd, odd, [odd], [one]))
    assert said.count("<b> & \N{REPLACEMENT CHARACTER}[1m") == 3
    assert "<i>" in said


def test_notes_stand_between_the_heading_and_the_drawing_area():
    drawn = [Line(0, [(1, 1.0), (2, 3.0)]), Line(1, [(1, 2.0), (2, 2.0)])]
    noted = panel(*drawn, heading="head", notes=[Note(0, "one"), Note(1, "two")])
    svg = draw("title", "what", ["a", "b"], [noted, panel(*drawn), panel(*drawn), noted])
    rows = [float(group.get("transform").rstrip(")").split()[1]) for group in panels(svg)]
    for group in (panels(svg)[0], panels(svg)[3]):
        said = {t.text: float(t.get("y")) for t in group.iter() if t.text in ("head", "one", "two")}
        assert said["head"] < said["one"] < said["two"] < noted.above
    assert rows[0] == rows[1] == rows[2]
    assert rows[3] - noted.lift >= rows[0] + HEIGHT, "the second row begins below the first"
    assert float(root_of(svg).get("height")) == rows[3] + HEIGHT
