import math

import pytest

from repro.report.intervals import estimate, t_quantile, welch


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [
        (1, 12.706205),
        (2, 4.302653),
        (3, 3.182446),
        (9, 2.262157),
        (30, 2.042272),
        (100, 1.983972),
        (1e6, 1.959966),
    ],
)
def test_quantiles_equal_the_printed_tables(freedom, expected):
    assert t_quantile(freedom) == pytest.approx(expected, abs=2e-6)


def test_quantile_of_another_confidence():
    assert t_quantile(10, 0.99) == pytest.approx(3.169273, abs=2e-6)


def test_estimate_of_three_seeds():
    best = estimate([27.0, 28.0, 29.0])
    assert (best.mean, best.n, best.variance) == (28.0, 3, 1.0)
    assert best.half_width == pytest.approx(4.302653 / math.sqrt(3), abs=1e-5)
    assert best.low == pytest.approx(28 - best.half_width)


def test_one_seed_has_no_interval_unless_deterministic():
    assert estimate([5.0]).half_width is None
    assert estimate([5.0]).variance is None
    sure = estimate([5.0], deterministic=True)
    assert (sure.low, sure.high, sure.variance) == (5.0, 5.0, 0.0)


def test_welch_with_unequal_variances():
    a, b = estimate([1.0, 2.0, 3.0]), estimate([2.0, 4.0, 6.0, 8.0])
    low, high = welch(a, b)
    # The standard error is sqrt(1/3 + 5/3), the degrees of freedom 4 / (1/18 + 25/27) = 4.0755.
    half = math.sqrt(2) * t_quantile(4 / (1 / 18 + 25 / 27))
    assert (low, high) == (pytest.approx(-3 - half), pytest.approx(-3 + half))


def test_welch_against_a_deterministic_number_uses_the_other_spread():
    low, high = welch(estimate([1.0, 2.0, 3.0]), estimate([0.0], deterministic=True))
    assert (high - low) / 2 == pytest.approx(4.302653 / math.sqrt(3), abs=1e-5)


def test_welch_needs_a_spread_on_both_sides():
    assert welch(estimate([1.0]), estimate([1.0, 2.0])) is None
    assert welch(estimate([3.0], True), estimate([1.0], True)) == (2.0, 2.0)
