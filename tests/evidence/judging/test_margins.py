import math
from datetime import datetime

import pytest

from repro.errors import UserError
from repro.evidence.judging.margins import Margin, check_date, default_margin, parse_margin


def declared(size, **more):
    return parse_margin({"size": size, "set": "2026-01-01", **more})


@pytest.mark.parametrize(
    ("size", "kind", "at_200", "words"),
    [
        (0.5, "absolute", 0.5, "0.5"),
        ("1%", "percent", 2.0, "1 %"),
        ("x1.25", "factor", math.log(1.25), "x1.25"),
    ],
)
def test_the_three_kinds(size, kind, at_200, words):
    margin = declared(size, reason="toys")
    assert (margin.kind, margin.date, margin.reason) == (kind, "2026-01-01", "toys")
    assert (margin.width_at(200.0), str(margin), margin.is_log) == (
        pytest.approx(at_200),
        words,
        kind == "factor",
    )
    assert margin.scaled(200.0) == (math.log(200) if kind == "factor" else 200.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": -0.5, "set": "2026-01-01"}, "-0.5"),
        ({"size": 0, "set": "2026-01-01"}, "must be above 0"),
        ({"size": "x1", "set": "2026-01-01"}, "'x1' must be above 0"),
        ({"size": "nan", "set": "2026-01-01"}, "nan"),
        ({"size": "much", "set": "2026-01-01"}, "much"),
        ({"size": 0.5, "set": "2026-13-01"}, "2026-13-01"),
        ({"size": 0.5}, "write it like"),
        ({"size": 0.5, "set": "2026-01-01", "why": "x"}, "write it like"),
        (0.5, "write it like"),
    ],
)
def test_another_form_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        parse_margin(given)


def test_nothing_and_a_margin_stay_as_they_are():
    one = Margin(1.0, "absolute")
    assert (parse_margin(None), parse_margin(one)) == (None, one)


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        ("percent", "1"),
        ("BLEU", "0.5"),
        ("perplexity per word", "1 %"),
        ("bits/dim", "0.02"),
        ("times", "x1.25"),
    ],
)
def test_the_default_margin_follows_from_the_unit(unit, size):
    assert str(default_margin(unit)) == size
    assert default_margin("exponent") is None
    assert declared(size.replace(" ", "")).is_default(unit)


def test_a_chosen_margin_is_older_than_the_runs_that_it_judges():
    began = datetime(2026, 1, 2)
    chosen = Margin(2.0, "absolute", "2026-01-02")
    check_date(chosen, "BLEU", began, "here")
    check_date(None, "BLEU", began, "here")
    check_date(Margin(0.5, "absolute", "2026-05-05"), "BLEU", began, "here")
    with pytest.raises(
        UserError, match=r"here: margin 2 was set on 2026-01-03, after a run began on 2026-01-02; take 0\.5"
    ):
        check_date(Margin(2.0, "absolute", "2026-01-03"), "BLEU", began, "here")
    with pytest.raises(UserError, match="take one that was set before"):
        check_date(Margin(2.0, "absolute", "2026-01-03"), "exponent", began, "here")
