"""Figures as matplotlib draws them, read back from the SVG."""

import itertools
import re
from pathlib import Path

import pytest

from repro.report.plots import files
from repro.report.plots.chart import Chart, Line, Panel
from repro.report.plots.drawing import MARKERS, in_powers, pdf, short
from repro.report.plots.plot import SWEEPS, Plot
from tests.report.svg import marks, root_of, strokes, ticks, words

ODD = "<b> & \x1b[1m $x$"


def drawn(*lines, names=None, title="title", panels=None, **about):
    count = 1 + max((line.look for line in lines), default=0)
    one = Panel("across (s)", "upwards (m)", lines, **about)
    chart = Chart(title, names or [f"line {n}" for n in range(count)], panels or [one])
    return files.content(Plot("toy--x.svg", SWEEPS, "A <caption>", chart), Path("missing")).decode()


def test_a_panel_says_what_it_shows_as_text():
    svg = drawn(Line(0, [(1, 1.0), (2, 3.0)]), names=["a"], title="all", settings=True)
    assert {"all", "a", "across (s)", "upwards (m)", "1", "2"} <= set(words(svg))
    assert (root_of(svg).get("role"), root_of(svg).get("aria-label")) == ("img", "A <caption>")


def test_markers_lie_above_their_ticks():
    line = Line(0, [(1024 * 2**n, float(n)) for n in range(7)])
    svg = drawn(line, settings=True, log_x=True)
    across, up = ticks(svg)
    found = marks(svg)
    assert [across[f"{2**n}K"] for n in range(7)] == [x for _, x, _ in found]
    heights = {value: y for value, (_, _, y) in enumerate(found)}
    assert up == {said: pytest.approx(heights[int(said)], abs=0.5) for said in up}
    steps = [b[1] - a[1] for a, b in itertools.pairwise(found)]
    assert steps == pytest.approx([steps[0]] * 6, abs=0.2)


def test_a_logarithmic_height_and_its_ticks():
    svg = drawn(Line(0, [(n, 10.0 ** (-n)) for n in range(6)]), log_y=True)
    (_, _, places), up = strokes(svg)[0], ticks(svg)[1]
    steps = [b[1] - a[1] for a, b in itertools.pairwise(places)]
    assert steps == pytest.approx([steps[0]] * 5, abs=0.2)
    assert set(up) == {"1", "0.1", "0.01", "0.001", "0.0001", "1e-5"}
    assert set(ticks(drawn(Line(0, [(0, 2.0), (1, 80.0)]), log_y=True))[1]) == {"2", "5", "10", "20", "50"}


def test_a_height_from_zero():
    line = Line(0, [(0, 90.0), (1, 100.0)])
    assert "0" not in ticks(drawn(line))[1]
    assert "0" in ticks(drawn(line, from_zero=True))[1]


def test_words_stand_behind_the_numbers_and_are_not_joined():
    svg = drawn(Line(0, [(1, 1.0), (2, 2.0), ("exact", 9.0), ("none", 1.0)]), settings=True)
    ((_, _, places),) = strokes(svg)
    assert len(places) == 2
    across, _ = ticks(svg)
    assert across["1"] < across["2"] < across["exact"] < across["none"]
    assert marks(svg)[2][1] == pytest.approx(across["exact"], abs=0.2)
    assert {"a", "b"} <= set(words(drawn(Line(0, [("a", 1.0), ("b", 2.0)]), settings=True)))


def test_lines_that_share_a_words_place_stand_apart():
    lines = [Line(look, [(1, 5.0), ("exact", 5.0)], [("exact", 5.0)]) for look in range(4)]
    svg = drawn(*lines, settings=True)
    there = {colour: x for colour, x, _ in marks(svg)}  # the word comes last
    assert len(set(there.values())) == 4
    assert {colour: x for colour, x, _ in marks(svg, opaque=False)} == there  # seeds with their means
    assert sum(there.values()) / 4 == pytest.approx(ticks(svg)[0]["exact"], abs=0.2)


def test_a_line_breaks_where_a_value_is_missing():
    points = [(x, None if x == 50 else float(x)) for x in range(100)]
    svg = drawn(Line(0, points))
    (path,) = re.findall(r'<path d="(M[^"]*)" clip-path[^>]*stroke="var\(--k0\)"', svg)
    assert path.count("M") == 2


def test_few_points_are_marked_and_many_are_not():
    assert len(marks(drawn(Line(0, [(x, float(x)) for x in range(30)])))) == 30
    assert marks(drawn(Line(0, [(x, float(x)) for x in range(31)]))) == []


def test_thin_lines_are_faint_and_without_marks():
    svg = drawn(Line(0, [(0, 0.0), (1, 1.0)], thin=True), Line(0, [(0, 1.0), (1, 2.0)]))
    assert [width for _, width, _ in strokes(svg)] == [0.8, 1.6]
    assert len(marks(svg)) == 2


def test_twelve_lines_look_different_and_as_their_keys():
    svg = drawn(*(Line(n, [(0, float(n)), (1, 2.0)]) for n in range(12)))
    paths = re.findall(r'<path [^>]*stroke="var\(--k\d\)"[^>]*stroke-width="1.6"[^>]*>', svg)
    looks = [re.findall(r'stroke="(\S+)"|stroke-dasharray="([^"]*)"', path) for path in paths]
    assert len(looks) == 24
    assert looks[:12] == looks[12:]
    assert len({str(look) for look in looks[:12]}) == 12
    assert len(MARKERS) == 5


def test_every_title_and_name_lies_within_the_figure():
    one = Panel("x", "y", [Line(0, [(0, 1.0), (1, 2.0)])])
    names = [f"a name of some length {n}" for n in range(9)]
    root = root_of(drawn(names=names, panels=[one, one]))
    keys = {t.text: (float(t.get("x")), float(t.get("y"))) for t in root.iter() if t.text in names}
    assert len(set(keys.values())) == 9
    assert all(x + 6 * len(name) < float(root.get("width")) for name, (x, _) in keys.items())
    assert float(root_of(drawn(title="t" * 80, panels=[one])).get("width")) >= 80 * 8


def test_notes_and_rules():
    svg = drawn(
        Line(0, [(1, 1.0), (10, 3.0)]),
        title="",
        settings=True,
        notes=[(0, "exponent 1.00"), (0, "exponent 2.00")],
        rules=[(4, "cross at 4")],
    )
    heights = {t.text: float(t.get("y")) for t in root_of(svg).iter() if t.get("y") and t.text}
    assert heights["exponent 1.00"] < heights["exponent 2.00"] < min(y for _, _, y in marks(svg))
    assert "cross at 4" in heights


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0, 1e-9, 1e12])
def test_a_single_value_can_be_drawn(value):
    for points in ([(0, value)], [(0, value), (10, value)]):
        found = marks(drawn(Line(0, points)))
        assert len(found) == len(points)
        assert all(0 < x < 330 and 0 < y < 260 for _, x, y in found)


def test_hostile_names_are_text():
    svg = drawn(Line(0, [("<i>", 1.0), ("x", 2.0)]), names=[ODD], title=ODD, panels=None, settings=True)
    said = "<b> & \N{REPLACEMENT CHARACTER}[1m $x$"
    assert words(svg).count(said) == 2
    assert "<i>" in words(svg)


def test_colours_are_variables_and_both_themes_are_there():
    svg = drawn(Line(0, [(0, 1.0), (1, 2.0)]), Line(1, [(0, 1.0), (1, 2.0)]))
    style = re.search(r"<style>(.*?)</style>", svg)[1]
    rest = svg.replace(style, "")
    assert not re.search(r"#[0-9a-f]{6}\"|style=|font-family", rest)
    used = set(re.findall(r"var\(--([\w-]+)\)", rest))
    assert {"text", "line", "edge", "back", "k0", "k1"} == used
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    assert all(f"--{name}:#" in light and f"--{name}:#" in dark for name in used)


def test_several_figures_in_one_page_have_no_identifier_in_common():
    chart = Chart("t", ["a"], [Panel("x", "y", [Line(0, [(0, 1.0), (1, 2.0)])])])
    both = [files.content(Plot(f"{n}.svg", SWEEPS, "c", chart), Path("missing")).decode() for n in "ab"]
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in both]
    assert ids[0]
    assert not ids[0] & ids[1]
    for svg, own in zip(both, ids, strict=True):
        assert set(re.findall(r'(?:href="|url\()#(\w+)', svg)) == own


def test_the_same_data_give_the_same_bytes_whatever_the_users_settings():
    import matplotlib

    line = Line(0, [(0, 1.0), (1, 2.0)])
    first = drawn(line)
    with matplotlib.rc_context({"lines.linewidth": 9.0, "font.size": 30}):
        assert drawn(line) == first
    assert not re.search(r"\d{4}-\d\d-\d\d|matplotlib", first)


def test_a_pdf_for_papers():
    chart = Chart("t", ["a"], [Panel("x", "y", [Line(0, [(0, 1.0), (1, 2.0)])])])
    assert pdf(chart).startswith(b"%PDF")
    assert pdf(chart) == pdf(chart)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.5, "0.5"), (1, "1"), (512, "512"), (1024, "1K"), (1000, "1,000"), (65536, "64K"), (2**21, "2M"), (2**30, "1G")],
)  # fmt: skip
def test_numbers_in_powers_of_two(value, said):
    assert in_powers(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (1e-7, "1e-7"), (-2.5e-5, "-2.5e-5"), (1e-3, "0.001"), (2e5, "200,000"), (1e7, "1e7")]
)  # fmt: skip
def test_large_and_small_numbers_stay_short(value, said):
    assert short(value) == said


def test_no_identifier_depends_on_the_last_bits_of_coordinates():
    def points(x):
        return [(1, x), (2, 10.0)], [(1, 2 * x), (2, 3.0)]

    one, other = (drawn(*map(Line, range(2), points(x))) for x in (1.0, 1.0 + 2**-40))
    beheaded = [re.sub(r'data-sha256="\w+"', "", svg) for svg in (one, other)]
    assert beheaded[0] == beheaded[1]
