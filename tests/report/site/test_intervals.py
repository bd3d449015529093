import pytest

from repro.evidence.compare import compare
from repro.evidence.statistics import estimate
from repro.report.site.intervals import EDGE, WIDTH, Span, difference, interval, span_of
from tests.evidence.test_compare import GOAL
from tests.report.fakes import PUBLISHED
from tests.report.pages import tree_of


def test_means_and_intervals_lie_on_the_axis():
    best = estimate([1.0, 2.0, 3.0])
    span = span_of([best, estimate([10.0])])
    assert (span.low, span.high) == (best.low, 10.0)
    made = interval(best, span)
    assert made.mean == span.place(2.0)
    assert made.interval == (EDGE, span.place(best.high))


def test_a_single_run_has_no_interval():
    made = interval(estimate([1.0]), Span(0.0, 2.0))
    assert (made.mean, made.interval, made.beyond) == (WIDTH / 2, None, "")


def test_one_number_stands_in_the_middle():
    assert Span(3.0, 3.0).place(3.0) == WIDTH / 2


def test_what_lies_beyond_stands_at_the_end():
    assert Span(0.0, 1.0).place(5.0) == WIDTH - EDGE
    assert Span(0.0, 1.0).place(-5.0) == EDGE
    assert interval(estimate([5.0]), Span(0.0, 1.0)).beyond == "right"
    assert interval(estimate([-5.0]), Span(0.0, 1.0)).beyond == "left"


def strip(house, values):
    house.run(house.recipe("big"), values)
    entry = compare().entries["toy", "table1", "big", "bleu"]
    return difference(entry, entry.ours[0])


def test_the_band_is_the_margin_around_the_published_number(house):
    made = strip(house, [29.9, 30.0, 30.1])  # published 30, margin 0.5: the strip spans 28 to 32
    share = (WIDTH - 2 * EDGE) / 4.0
    assert made.band == (WIDTH / 2 - share / 2, WIDTH / 2 + share / 2)
    assert made.tick == made.mean == WIDTH / 2


RATIO = "class: ratio, margin: {size: x1.25, set: '2026-01-01', reason: noise}"


@pytest.mark.parametrize(("metric", "ours"), [("ppl", 5.0 + 2 * 0.05), ("speed", 900.0 * 1.25**2)])
def test_a_margin_may_be_a_share_or_a_factor(house, metric, ours):
    house.publish(PUBLISHED.replace("class: timed", RATIO))
    house.run(house.recipe("base", GOAL % ("base", metric, "")), [ours - 0.01, ours, ours + 0.01])
    entry = compare().entries["toy", "table1", "base", metric]
    made = difference(entry, entry.ours[0])
    share = (WIDTH - 2 * EDGE) / 4  # four margins to each side, the band two margins wide
    assert made.band[1] - made.band[0] == share
    assert made.mean == round(WIDTH / 2 + share, 1)


def test_a_number_without_margin_has_no_strip(house):
    house.run(house.recipe("base", GOAL % ("base", "speed", "")), [900.0])
    entry = compare().entries["toy", "table1", "base", "speed"]
    assert difference(entry, entry.ours[0]) is None


def drawn(house, values):
    """The parts of the strip on the page, by class."""
    made = strip(house, values)
    (svg,) = tree_of(house).one("div", aria_label="Trained results at the paper's scale").all("svg")
    return made, {part.get("class"): part for part in svg.walk()}


def test_the_page_draws_band_tick_interval_and_mean(house):
    made, parts = drawn(house, [29.9, 30.0, 30.1])
    assert set(parts) == {"band", "tick", "whisker", "dot"}
    assert (float(parts["band"].get("x")), float(parts["band"].get("width"))) == (made.band[0], 35.0)
    assert parts["tick"].get("d").startswith(f"M{made.tick} ")
    assert parts["whisker"].get("d").startswith(f"M{made.interval[0]} 9.0H{made.interval[1]}M")
    assert float(parts["dot"].get("cx")) == made.mean


def test_a_single_run_is_hollow(house):
    assert set(drawn(house, [30.1])[1]) == {"band", "tick", "dot hollow"}


@pytest.mark.parametrize(("value", "tip"), [(33.0, WIDTH - 1), (27.0, 1)])
def test_an_arrow_points_where_the_mean_is_too_far(house, value, tip):
    parts = drawn(house, [value, value + 0.1, value + 0.2])[1]
    assert set(parts) == {"band", "tick", "whisker", "arrow"}
    assert parts["arrow"].get("d").startswith(f"M{tip} ")
