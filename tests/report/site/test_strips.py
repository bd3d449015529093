import re

import pytest

from repro.report.compare import compare
from repro.report.site.strips import EDGE, WIDTH, Span, difference, interval, span_of
from repro.report.statistics import estimate
from tests.report.fakes import PUBLISHED
from tests.report.markup import read
from tests.report.test_compare import GOAL


def test_means_and_intervals_lie_on_the_axis():
    best = estimate([1.0, 2.0, 3.0])
    span = span_of([best, estimate([10.0])])
    assert (span.low, span.high) == (best.low, 10.0)
    made = read(interval(best, span))
    dot = made.one("circle")
    assert float(dot.get("cx")) == round(span.place(2.0), 1)
    assert dot.get("class") == "dot"
    left, right = re.match(r"M([\d.]+) 9H([\d.]+)", made.one("path").get("d")).groups()
    assert (float(left), float(right)) == (round(span.place(best.low), 1), round(span.place(best.high), 1))


def test_a_single_run_is_hollow_and_has_no_whisker():
    made = read(interval(estimate([1.0]), Span(0.0, 2.0)))
    assert made.one("circle").get("class") == "dot hollow"
    assert made.all("path") == []
    assert float(made.one("circle").get("cx")) == WIDTH / 2


def test_one_number_stands_in_the_middle():
    assert Span(3.0, 3.0).place(3.0) == WIDTH / 2


def test_what_lies_beyond_stands_at_the_end():
    assert Span(0.0, 1.0).place(5.0) == WIDTH - EDGE
    assert Span(0.0, 1.0).place(-5.0) == EDGE


def strip(house, values):
    house.run(house.recipe("big"), values)
    entry = compare().entries["toy", "table1", "big", "bleu"]
    return read(difference(entry, entry.ours[0]))


def test_the_band_is_the_margin_around_the_published_number(house):
    made = strip(house, [29.9, 30.0, 30.1])  # published 30, margin 0.5: the strip spans 28 to 32
    band, tick = made.one("rect"), made.one("path", cls="tick")
    share = (WIDTH - 2 * EDGE) / 4.0
    assert float(band.get("width")) == share
    assert float(band.get("x")) == WIDTH / 2 - share / 2
    assert tick.get("d").startswith(f"M{WIDTH // 2} ")
    assert float(made.one("circle").get("cx")) == WIDTH / 2


RATIO = "class: ratio, margin: {size: x1.25, set: '2026-01-01', reason: noise}"


@pytest.mark.parametrize(("metric", "ours"), [("ppl", 5.0 + 2 * 0.05), ("speed", 900.0 * 1.25**2)])
def test_a_margin_may_be_a_share_or_a_factor(house, metric, ours):
    house.publish(PUBLISHED.replace("class: timed", RATIO))
    house.run(house.recipe("base", GOAL % ("base", metric, "")), [ours - 0.01, ours, ours + 0.01])
    entry = compare().entries["toy", "table1", "base", metric]
    made = read(difference(entry, entry.ours[0]))
    share = (WIDTH - 2 * EDGE) / 4  # four margins to each side, the band two margins wide
    assert float(made.one("rect").get("width")) == share
    assert float(made.one("circle").get("cx")) == round(WIDTH / 2 + share, 1)


def test_a_number_without_margin_has_no_strip(house):
    house.run(house.recipe("base", GOAL % ("base", "speed", "")), [900.0])
    entry = compare().entries["toy", "table1", "base", "speed"]
    assert difference(entry, entry.ours[0]) == ""


def test_an_arrow_points_where_the_mean_is_too_far(house):
    made = strip(house, [33.0, 33.1, 33.2])
    assert made.all("circle") == []
    assert made.one("path", cls="arrow").get("d").startswith(f"M{WIDTH - 1} ")
    assert made.one("path", cls="whisker")
