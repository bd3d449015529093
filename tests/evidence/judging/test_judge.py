"""The rules of verdicts, by simulation: how often each word is said when the truth is known."""

import math
from functools import cache

import numpy as np
import pytest

from repro.evidence.judging.judge import (
    EXTENDED_LEVEL,
    LEVEL,
    LOOKS,
    PublishedRows,
    judge_claim,
    judge_number,
)
from repro.evidence.judging.margins import Margin
from repro.evidence.judging.statistics import Difference
from repro.evidence.published import Metric, PrintedSpread, Rules

DRAWS = 1000
ERROR = {3: 0.05, 5: 0.075}  # by the number of declared seeds: five are looked at twice, see LOOKS
ONE = Margin(1.0, "absolute")


def rules_of(kind, margin=None, **more):
    return Rules(kind=kind, margin=margin, **more)


TRAINED = rules_of("trained", ONE)


@cache
def column(unit="points", sign=1):
    words = dict.fromkeys(("name", "description", "dataset", "split"), "made up")
    return Metric(unit=unit, better="higher" if sign > 0 else "lower", rules=TRAINED, **words)


def at_most(share):
    """A share that a true rate of at most this exceeds in one simulation of a thousand."""
    return share + 3.1 * math.sqrt(share * (1 - share) / DRAWS)


def at_least(share):
    return 1 - at_most(1 - share)


def judged(scores, published=0.0, rules=TRAINED, updates=100, unit="points", sign=1, level=LEVEL):
    """The verdict of one look at these seeds."""
    by_seed = dict(enumerate(scores, 1))
    return judge_number(by_seed, published, rules, column(unit, sign), updates, [*by_seed], level)


def verdict(*args, **settings):
    return judged(*args, **settings).word


def looks(scores, *args, **settings):
    """The verdict of the looks that the scores allow."""
    for count, level in LOOKS:
        word = verdict(scores[:count], *args, **settings, level=level)
        if word != "open" or len(scores) <= count:
            break
    return word


def share_of(word, n, difference, spread, drawn, rules=TRAINED):
    """The share of draws with a verdict, for ``n`` seeds whose true mean is ``difference`` away from the paper's."""
    random = np.random.default_rng(20261122)
    ours = random.normal(difference, spread, (DRAWS, n))
    published = random.normal(0.0, spread, DRAWS) if drawn else np.zeros(DRAWS)
    output = [looks(a, p, rules) for a, p in zip(ours, published, strict=True)]
    return output.count(word) / DRAWS


@pytest.mark.parametrize("drawn", [True, False], ids=["one-run", "fixed"])
@pytest.mark.parametrize("n", [3, 5])
class TestNumbers:
    @pytest.mark.parametrize("spread", [0.01, 0.1, 0.3, 1.0, 3.0])
    @pytest.mark.parametrize("side", [-1, 1])
    def test_a_difference_of_the_margin_is_rarely_reproduced(self, n, drawn, spread, side):
        assert share_of("reproduced", n, side * 1.0, spread, drawn) <= at_most(ERROR[n])

    def test_no_difference_at_a_small_spread_is_reproduced(self, n, drawn):
        assert share_of("reproduced", n, 0.0, 0.1, drawn) >= at_least(0.95)

    def test_no_difference_at_a_large_spread_is_open(self, n, drawn):
        assert share_of("open", n, 0.0, 2.0, drawn) >= at_least(0.90)

    @pytest.mark.parametrize("word", ["higher", "lower"])
    def test_a_difference_of_the_margin_is_rarely_called_larger(self, n, drawn, word):
        side = 1 if word == "higher" else -1
        assert share_of(word, n, side * 1.0, 0.3, drawn) <= at_most(ERROR[n])

    def test_a_printed_spread_takes_the_place_of_ours(self, n, drawn):
        rules = rules_of("trained", ONE, noise=PrintedSpread(sd=0.3, runs=1000 if drawn else 5))
        assert share_of("reproduced", n, 1.0, 0.3, False, rules) <= at_most(ERROR[n])


@pytest.mark.parametrize(
    ("score", "word"),
    [
        (0.0, "reproduced"),
        (0.999, "reproduced"),
        (1.0, "open"),
        (-1.0, "open"),
        (1.01, "higher"),
        (-1.01, "lower"),
    ],
)
def test_without_any_spread_the_interval_is_the_point(score, word):
    assert verdict([score] * 3) == word
    assert verdict([score + 75.8] * 3, 75.8) == word


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("drawn", [True, False], ids=["one-run", "fixed"])
@pytest.mark.parametrize("official", [0.0, 0.3, 0.5, 1.0])
def test_rates_that_differ_by_the_margin_are_rarely_reproduced(n, drawn, official):
    random = np.random.default_rng(7)
    half = rules_of("trained", Margin(0.5, "absolute"))
    ours = official + 0.5 if official < 0.5 else official - 0.5
    scores = random.random((DRAWS, n)) < ours
    published = (random.random(DRAWS) < official).astype(float) if drawn else np.full(DRAWS, round(official))
    pairs = zip(scores.astype(float), published, strict=True)
    output = [looks(a, p, half, unit="0/1") for a, p in pairs]
    assert output.count("reproduced") / DRAWS <= at_most(ERROR[n])


def test_a_rate_over_many_runs_can_be_reproduced():
    rules = rules_of("trained", Margin(0.5, "absolute"), noise=PrintedSpread(sd=0.0, runs=20))
    assert verdict([1.0] * 10, 1.0, rules, unit="0/1") == "reproduced"
    assert verdict([0.0] * 20, 1.0, rules, unit="0/1") == "lower"
    assert verdict([1.0] * 3, 1.0, rules, unit="0/1") == "open"


def test_fewer_updates_than_the_paper_are_a_short_budget_below_the_ceiling():
    rules = rules_of("trained", ONE, updates=1000, ceiling=100.0)
    assert verdict([99.9, 100.0, 100.0], 100.0, rules, updates=999) == "short budget"
    assert verdict([100.0] * 3, 100.0, rules, updates=999) == "reproduced"
    assert verdict([99.9, 100.0, 100.0], 100.0, rules, updates=1000) == "reproduced"
    assert (
        verdict([4.0, 4.0, 4.0], 5.0, rules_of("trained", ONE, updates=9), updates=8, sign=-1)
        == "short budget"
    )


def test_at_chance_needs_both_numbers_there():
    rules = rules_of("trained", ONE, chance=50.0)
    assert verdict([50.1, 49.9, 50.0], 50.1, rules) == "at chance"
    assert verdict([50.1, 49.9, 50.0], 60.0, rules) == "lower"
    assert verdict([60.1, 59.9, 60.0], 50.1, rules) == "higher"
    assert verdict([50.0, 65.7, 57.2], 50.0, rules) == "open"  # a wide interval is not chance


def test_two_numbers_below_chance_are_at_chance_however_far_apart():
    copying = rules_of(
        "trained", ONE, chance=75.0
    )  # half of the bits are visible, half of the others are guessed
    assert verdict([73.8, 73.9, 74.0], 60.9) == "higher"
    assert verdict([73.8, 73.9, 74.0], 60.9, copying) == "at chance"
    assert verdict([89.9, 90.0, 90.1], 60.9, copying) == "higher"
    assert verdict([73.8, 73.9, 74.0], 100.0, copying) == "lower"
    loss = rules_of("trained", ONE, chance=5.0)
    assert verdict([20.0, 20.1, 19.9], 9.0, loss, sign=-1) == "at chance"
    assert verdict([1.0, 1.1, 0.9], 9.0, loss, sign=-1) == "lower"


def test_a_judged_seed_without_a_number_leaves_it_open():
    result = judge_number({1: 0.0, 2: 0.0, 4: 0.0}, 0.0, TRAINED, column(), 1, (1, 2, 3), LEVEL)
    assert (result.word, result.why) == ("open", "no number of seed 3"), "no other takes its place"
    few = judged([0.0, 0.0])
    assert (few.word, few.why) == ("open", "2 of 3 seeds are declared")


def test_the_second_look_is_held_to_half_the_error():
    noise = rules_of("trained", ONE, noise=PrintedSpread(sd=0.01, runs=1000))
    five = [1.4, 0.2, 0.3, 0.4, 0.3]  # 90 % inside the margin, 95 % not
    assert (verdict(five, rules=noise), looks(five, rules=noise)) == ("reproduced", "open")
    assert looks([1.2, *five[1:]], rules=noise) == "reproduced"


def test_the_words_say_where_the_value_lies_whatever_is_better():
    assert verdict([5.0, 5.01, 4.99], 0.0, sign=1) == "higher"
    assert verdict([5.0, 5.01, 4.99], 0.0, sign=-1) == "higher"


def test_another_random_sample_adds_its_binomial_variance():
    scores = [80.0, 80.1, 79.9]
    assert verdict(scores, 80.0) == "reproduced"
    assert verdict(scores, 80.0, rules_of("trained", ONE, sampled=100)) == "open"


def test_classes_without_a_spread():
    computed = rules_of("computed", Margin(0.001, "absolute"))
    assert verdict([2.0005], 2.0, computed) == "agrees"
    assert verdict([2.002], 2.0, computed) == "differs"
    assert verdict([40.0] * 3, 72.6, rules_of("timed")) == "timed"
    assert verdict([40.0] * 3, 72.6, rules_of("derived")) == "derived"


def test_ratios_are_compared_by_their_logarithms():
    ratio = rules_of("ratio", Margin(1.25, "factor"))
    assert verdict([8.1, 8.0, 7.9], 8.0, ratio) == "reproduced"
    assert verdict([10.6, 10.5, 10.4], 8.0, ratio) == "higher"
    assert verdict([6.0, 6.1, 6.05], 8.0, ratio) == "lower"


def test_a_share_is_of_the_published_number():
    percent = rules_of("trained", Margin(1.0, "percent"))
    assert verdict([200.5, 200.4, 200.6], 200.0, percent) == "reproduced"
    assert verdict([2.05, 2.06, 2.04], 2.0, percent) in ("open", "higher")


def test_an_open_number_says_whether_the_last_look_would_decide():
    noise = rules_of("trained", ONE, noise=PrintedSpread(sd=0.01, runs=5))
    assert judged([0.7, -0.7, 0.0], rules=noise).why == "5 seeds would decide at this spread"
    edge = judged([0.99, 1.0, 1.01], rules=noise).why
    assert edge == "5 seeds would not decide at this spread", "the paper's number is no single run"
    one_run = "decide: the published number is itself one run of this spread"
    assert judged([2.0, -2.0, 0.0]).why == f"5 seeds would not {one_run}"
    assert judged([2.0, -2.0, 0.0, 1.0, -1.0], level=EXTENDED_LEVEL).why == f"5 seeds do not {one_run}"


# --- claims -----------------------------------------------------------------------------------------------


def claim_share(word, gaps, n, spread=1.0, margin=None, printed=None, apart=None, unequal=False):
    """The share of draws with a verdict, for rows whose true means fall by ``gaps``."""
    random = np.random.default_rng(42)
    means = -np.cumsum([0.0, *gaps])
    spreads = spread * (np.linspace(0.3, 2.0, len(means)) if unequal else np.ones(len(means)))
    printed = printed or [10.0 - 3.0 * i for i in range(len(means))]
    output = []
    for _ in range(DRAWS):
        rows = [
            (f"r{i}", random.normal(mean, scale, n).tolist())
            for i, (mean, scale) in enumerate(zip(means, spreads, strict=True))
        ]
        output.append(judge_claim(rows, PublishedRows(printed, apart or ONE), margin, 1, "points").word)
    return output.count(word) / DRAWS


@pytest.mark.parametrize(("rows", "n"), [(2, 3), (2, 5), (3, 3), (5, 5)])  # of five rows, each pair is judged
class TestClaims:
    @pytest.mark.parametrize("unequal", [False, True])
    def test_equal_rows_rarely_stand_in_order(self, rows, n, unequal):
        assert claim_share("same order", [0.0] * (rows - 1), n, unequal=unequal) <= at_most(0.05)

    @pytest.mark.parametrize("gap", [0.0, 0.5, 2.0])
    def test_rows_in_the_stated_order_are_rarely_contradicted(self, rows, n, gap):
        assert claim_share("other order", [gap] * (rows - 1), n) <= at_most(0.05)

    def test_gaps_of_six_standard_errors_are_shown(self, rows, n):
        gap = 6 * math.sqrt(2 / n)
        assert claim_share("same order", [gap] * (rows - 1), n) >= at_least(0.90)

    def test_a_tie_of_adequate_power_is_shown(self, rows, n):
        printed = [10.0 - 0.01 * i for i in range(rows)]
        spread = 0.15 if n == 3 else 0.2
        assert claim_share("same order", [0.0] * (rows - 1), n, spread, ONE, printed) >= at_least(0.80)

    def test_a_clear_reversal_is_told(self, rows, n):
        assert claim_share("other order", [-12.0] * (rows - 1), n) >= at_least(0.80)

    def test_a_tie_at_the_margin_is_rarely_shown(self, rows, n):
        printed = [10.0 - 0.01 * i for i in range(rows)]
        gaps = [1.0, *[0.0] * (rows - 2)]
        assert claim_share("same order", gaps, n, 0.2, ONE, printed) <= at_most(0.05)


def claim(*rows, printed=(3.0, 1.0), margin=ONE, unit="points", sign=1, apart=ONE, **more):
    named = [(f"r{i}", list(scores)) for i, scores in enumerate(rows)]
    return judge_claim(named, PublishedRows(list(printed), apart, **more), margin, sign, unit)


def test_rows_shown_equal_contradict_an_order_of_the_paper():
    same = [1.0, 1.01, 0.99]
    assert claim(same, same).word == "other order"
    assert claim(same, same, printed=(3.0, 2.9)).word == "same order"  # the paper prints a tie
    assert claim(same, same, margin=None).word == "no clear order"  # nothing says what equal means


def test_not_worse_is_shown_by_the_margin_and_contradicted_by_more_than_it():
    worse, base = [1.0, 1.1, 0.9], [1.3, 1.4, 1.2]
    assert claim(worse, base, printed=(3.0, 2.9)).word == "same order"  # as a tie
    assert claim(worse, base, not_worse=True).word == "same order"
    assert claim([9.0, 9.1, 8.9], base, not_worse=True).word == "same order", "better is not worse"
    assert claim([9.0, 9.1, 8.9], base, printed=(3.0, 2.9)).word == "other order"
    lost = claim(worse, [9.0, 9.1, 8.9], not_worse=True)
    assert (lost.word, "r1 is ahead of r0" in lost.why) == ("other order", True)
    unclear = claim([1.0, 2.0, 0.0], [1.5, 2.5, 0.5], not_worse=True)
    assert (unclear.word, "r0 >= r1 (power" in unclear.why) == ("no clear order", True)


def test_an_order_that_is_not_shown_has_the_power_for_a_difference_like_the_papers():
    ours = ([10.0, 11.0, 9.0], [10.2, 9.2, 11.2])  # the standard error is sqrt(2 / 3)
    difference = Difference(0.0, math.sqrt(2 / 3), 4)
    assert difference.power_above(2.5, 0.05) == pytest.approx(0.805, abs=0.0005)
    assert "r0 > r1 (power 80 %)" in claim(*ours, printed=(40.0, 30.0)).why  # a quarter of ours is 2.5
    assert "r0 > r1 (power 80 %)" in claim(*ours, printed=(30.0, 37.5), sign=-1).why
    unprinted = f"(power {100 * difference.power_above(1.0, 0.05):.0f} %)"
    assert unprinted in claim(*ours, printed=(None, None)).why  # for a difference of the margin
    assert "power" not in claim(*ours, printed=(None, None), margin=None).why
    tied = f"r0 = r1 (power {100 * difference.power_within(1.0, 0.05):.0f} %)"
    assert tied in claim(*ours, printed=(3.0, 2.9)).why
    assert "power" not in claim([0.0] * 5, [1.0, 1.0, 0.0, 0.0, 0.0], unit="0/1", sign=-1).why
    other = claim(
        *ours, printed=(40.0, 30.0), same_quantity=False
    )  # a share of another quantity says nothing
    assert unprinted in other.why
    assert unprinted in claim(*ours, printed=(0.0, 30.0)).why
    assert "(power above 99 %)" in claim(*ours, printed=(40.0, 4.0)).why
    factor = Margin(1.25, "factor")
    speeds = [[math.exp(score / 5) for score in row] for row in ours]
    wide = (
        f"(power {100 * Difference(0.0, math.sqrt(2 / 3) / 5, 4).power_above(math.log(4 / 3), 0.05):.0f} %)"
    )
    assert wide in claim(*speeds, printed=(40.0, 30.0), margin=factor, apart=factor).why


def test_a_tie_of_the_paper_that_is_none_here_is_another_order():
    assert claim([9.0, 9.1, 8.9], [1.0, 1.1, 0.9], printed=(3.0, 2.9)).word == "other order"


def test_neighbours_that_are_shown_are_the_same_order_though_the_ends_are_apart():
    steps = [[mean - 0.01, mean, mean + 0.01] for mean in (3.0, 2.4, 1.8)]  # 0.6 a step, 1.2 from end to end
    assert claim(*steps, printed=(3.0, 2.9, 2.8)).word == "same order"


def test_few_seeds_show_no_order():
    assert claim([9.0, 9.0], [1.0, 1.0]).word == "no clear order"
    assert claim([0.0] * 3, [1.0] * 3, unit="0/1", sign=-1).word == "no clear order"


def test_outcomes_are_compared_by_fishers_test():
    assert claim([0.0] * 5, [1.0] * 5, unit="0/1", sign=-1).word == "same order"
    assert claim([1.0] * 5, [0.0] * 5, unit="0/1", sign=-1).word == "other order"
    assert claim([0.0] * 5, [1.0, 1.0, 0.0, 0.0, 0.0], unit="0/1", sign=-1).word == "no clear order"


def test_unprinted_rows_are_compared_in_the_stated_order():
    assert claim([9.0, 9.1, 8.9], [1.0, 1.1, 0.9], printed=(None, None)).word == "same order"


def test_a_claim_without_a_clear_order_says_how_many_seeds_would_decide():
    result = claim([2.0, 3.0, 1.0], [1.0, 2.0, 0.0], margin=None)
    assert f"{result.seeds} seeds a row would decide" in result.why
    assert claim([2.0, 2.1], [1.0, 1.1]).seeds == 3
    never = claim([2.0, 3.0, 1.0], [2.0, 3.0, 1.0], margin=None)
    assert (never.seeds, "would not decide" in never.why) == (0, True)
