import itertools

import pytest

from repro.report.axes import in_powers, linear, log_ticks, logarithmic, of_scores, of_settings, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-1.0, 1.0, [-1, -0.5, 0, 0.5, 1]),
        (27.1, 28.9, [27.5, 28.0, 28.5]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


def test_a_linear_axis_is_a_little_wider_than_its_values():
    axis = linear([1.0, 3.0])
    assert 0 < axis.share(1.0) < 0.05
    assert 0.95 < axis.share(3.0) < 1
    assert axis.share(2.0) == pytest.approx(0.5)
    assert linear([0.0, 4.0]).share(0.0) == 0  # it begins at nought


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0, 1e-9, 1e12])
def test_a_single_value_has_an_axis(value):
    assert 0 <= linear([value]).share(value) <= 1
    assert 0 <= of_settings([value]).share(value) <= 1


def test_each_doubling_is_as_wide():
    axis = of_settings([1024, 2048, 4096, 65536])
    places = [axis.share(1024 * 2**n) for n in range(7)]
    steps = [b - a for a, b in itertools.pairwise(places)]
    assert steps == pytest.approx([steps[0]] * 6)
    assert [label for _, label in axis.ticks()] == ["1K", "2K", "4K", "8K", "16K", "32K", "64K"]
    assert [share for share, _ in axis.ticks()] == pytest.approx(places)


@pytest.mark.parametrize(("values", "base"), [([1, 8], 0), ([1, 9], 2), ([0, 9], 0), ([-1, 9], 0), ([7], 0)])
def test_settings_are_logarithmic_beyond_a_factor_of_eight(values, base):
    assert of_settings(values).base == base


@pytest.mark.parametrize(
    ("values", "base"), [([1, 30], 0), ([1, 30.1], 10), ([0, 31], 0), ([-1, 31], 0), ([7], 0)]
)
def test_scores_are_logarithmic_beyond_a_factor_of_thirty(values, base):
    assert of_scores(values).base == base


def test_words_come_behind_the_numbers_each_in_its_place():
    axis = of_settings([2, "exact", 8, "none", "exact"])
    assert axis.words == ("exact", "none")
    assert axis.share(2) < axis.share(8) < axis.number_share < axis.share("exact") < axis.share("none") < 1
    assert [label for _, label in axis.ticks()] == ["2", "8", "exact", "none"]
    assert axis.share("none") - axis.share("exact") == pytest.approx(axis.word_share)


def test_only_words():
    axis = of_settings(["a", "b"])
    assert axis.ticks() == [(pytest.approx(0.25), "a"), (pytest.approx(0.75), "b")]
    assert axis.number_share == pytest.approx(0)


def test_many_long_words_leave_room_for_numbers():
    axis = of_settings([1, 2, *("a rather long word " + c for c in "abcdef")])
    assert axis.number_share == pytest.approx(0.4)


def test_few_settings_are_their_own_ticks_and_many_are_not():
    assert [label for _, label in of_settings([1, 2, 4, 8]).ticks()] == ["1", "2", "4", "8"]
    assert [label for _, label in of_settings(range(10, 30)).ticks()] == ["10", "15", "20", "25"]
    assert [label for _, label in of_settings([10, 10.1, 20]).ticks()] == ["10", "15", "20"]


def test_powers_of_two_are_thinned_and_those_of_ten_refined():
    assert log_ticks(0, 20, 2) == [2.0**e for e in (0, 3, 6, 9, 12, 15, 18)]
    assert log_ticks(-3.1, 0.2, 10) == pytest.approx([1e-3, 1e-2, 1e-1, 1])
    assert log_ticks(0.2, 1.8, 10) == [2, 5, 10, 20, 50]


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.5, "0.5"), (1, "1"), (512, "512"), (1024, "1K"), (1000, "1,000"), (65536, "64K"), (2**21, "2M"), (2**30, "1G")],
)  # fmt: skip
def test_numbers_in_powers_of_two(value, said):
    assert in_powers(value) == said


def test_large_and_small_scores_stay_short():
    said = [label for _, label in logarithmic([2e-7, 3e7], 10).ticks()]
    assert said == ["1e-7", "1e-5", "0.001", "0.1", "10", "1,000", "1e5", "1e7"]
    assert {label for _, label in logarithmic([1e-12, 2e-11], 10).ticks()} >= {"1e-12", "1e-11"}
