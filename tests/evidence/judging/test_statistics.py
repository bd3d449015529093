import math

import numpy as np
import pytest

from repro.evidence.judging.statistics import (
    Difference,
    clopper_pearson,
    estimate,
    exceeds,
    fisher,
    holm,
    satterthwaite,
    t_quantile,
    welch,
)  # fmt: skip


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706205), (2, 4.302653), (9, 2.262157), (100, 1.983972), (math.inf, 1.959964)],
)
def test_quantiles_equal_the_printed_tables(freedom, expected):
    assert t_quantile(freedom) == pytest.approx(expected, abs=2e-6)


def test_estimate_of_three_seeds():
    best = estimate([27.0, 28.0, 29.0])
    assert (best.mean, best.n, best.variance) == (28.0, 3, 1.0)
    assert best.half_width == pytest.approx(4.302653 / math.sqrt(3), abs=1e-5)
    assert best.low == pytest.approx(28 - best.half_width)


def test_one_seed_has_no_interval():
    assert estimate([5.0]).half_width is None
    assert estimate([5.0]).variance is None


def test_equal_scores_have_no_width():
    assert estimate([0.1] * 3).half_width == 0.0


def test_welch_with_unequal_variances():
    gap = welch(estimate([1.0, 2.0, 3.0]), estimate([2.0, 4.0, 6.0, 8.0]))
    # The standard error is sqrt(1/3 + 5/3), the degrees of freedom 4 / (1/18 + 25/27) = 4.0755.
    assert gap.value == -3
    assert gap.error == pytest.approx(math.sqrt(2))
    assert gap.freedom == pytest.approx(4 / (1 / 18 + 25 / 27))
    assert welch(estimate([1.0]), estimate([1.0, 2.0])) is None


def test_a_known_variance_has_infinitely_many_degrees_of_freedom():
    assert satterthwaite(0.0, [(2.0, math.inf)]).freedom == math.inf
    assert satterthwaite(0.0, [(2.0, math.inf), (0.0, 2)]).error == pytest.approx(math.sqrt(2))
    assert satterthwaite(0.0, [(1.0, 2), (1.0, math.inf)]).freedom == pytest.approx(8)


def test_p_values_mirror_the_intervals():
    gap = Difference(1.0, 0.5, 4)
    low, high = gap.interval(0.9)
    assert gap.p_above(low) == pytest.approx(0.05)
    assert gap.p_below(high) == pytest.approx(0.05)
    assert gap.p_within(max(abs(low), abs(high))) == pytest.approx(0.05)


def test_without_an_error_the_interval_is_the_point():
    point = Difference(1.0, 0.0, math.inf)
    assert point.interval(0.9) == (1.0, 1.0)
    assert (point.p_above(0.9), point.p_above(1.0), point.p_below(1.0)) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize("n", [3, 10])
@pytest.mark.parametrize("effect", [0.0, 0.5, 1.5])
def test_power_is_the_share_of_draws_in_which_the_test_shows_it(n, effect):
    draws, level = 2000, 0.05
    random = np.random.default_rng(7)
    a, b = random.normal(effect, 1.0, (draws, n)), random.normal(0.0, 1.0, (draws, n))
    gaps = [welch(estimate(x.tolist()), estimate(y.tolist())) for x, y in zip(a, b, strict=True)]
    truth = Difference(effect, math.sqrt(2 / n), 2 * n - 2)
    above = sum(gap.p_above(0.0) <= level for gap in gaps) / draws
    assert truth.power_above(effect, level) == pytest.approx(
        above, abs=0.06
    )  # Welch's freedom is estimated, too
    if not effect:
        within = sum(gap.p_within(1.0) <= level for gap in gaps) / draws
        assert truth.power_within(1.0, level) == pytest.approx(within, abs=0.04)


def test_power_where_the_error_is_known():
    known = Difference(0.0, 0.5, math.inf)
    assert known.power_above(0.5 * (1.644854 + 0.841621), 0.05) == pytest.approx(0.8, abs=1e-6)
    assert known.power_within(0.5 * (1.644854 + 1.281552), 0.05) == pytest.approx(0.8, abs=1e-6)
    exact = Difference(0.0, 0.0, math.inf)
    assert (exact.power_above(0.1, 0.05), exact.power_within(0.1, 0.05)) == (1.0, 1.0)


def test_rounding_does_not_exceed():
    assert not exceeds(0.1 + 0.2, 0.3)
    assert exceeds(0.31, 0.3)


def test_exact_intervals_of_rates():
    # 0 of 5: 1 - 0.025 ** (1 / 5); printed in tables of the exact binomial interval as 0.5218.
    assert clopper_pearson(0, 5, 0.95) == (0.0, pytest.approx(0.52182, abs=1e-5))
    assert clopper_pearson(5, 5, 0.95) == (pytest.approx(0.47818, abs=1e-5), 1.0)
    low, high = clopper_pearson(4, 10, 0.95)
    assert (low, high) == (pytest.approx(0.12155, abs=1e-5), pytest.approx(0.73762, abs=1e-5))


def test_fisher_on_the_lady_tasting_tea():
    assert fisher(3, 4, 1, 4) == pytest.approx(17 / 70)
    assert fisher(5, 5, 0, 5) == pytest.approx(1 / 252)
    assert fisher(0, 5, 5, 5) == pytest.approx(1.0)


def test_holm_rejects_where_the_smallest_is_small_enough_for_all():
    assert holm([0.02, 0.9], 0.05)
    assert not holm([0.02, 0.9, 0.9], 0.05)
    assert not holm([], 0.05)
