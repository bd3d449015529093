import pytest

from repro.errors import UserError
from repro.record import Measurement
from repro.report.claims import claims
from repro.report.compare import compare


def found(trend, scale="paper"):
    return next(c for c in claims(compare()) if c.trend.id == trend and c.scale == scale)


def run_rows(house, scale="paper", **rows):
    for row, values in rows.items():
        name = house.recipe(row)
        if scale != "paper":
            house.recipe(row, scale=scale, width=2)
        house.run(name, values, scale)


def around(middle):
    return [middle - 0.1, middle, middle + 0.1]


def test_every_trend_is_listed_without_recipes(house):
    here = claims(compare())
    assert [(c.trend.id, c.verdict, c.scale) for c in here] == [
        ("bigger-is-better", "no config", None),
        ("base-ties-small", "no config", None),
        ("lower-perplexity", "no config", None),
    ]


def test_not_run(house):
    house.recipe("big")
    assert found("bigger-is-better").verdict == "not run"


def test_holds(house):
    run_rows(house, big=around(30), base=around(28), small=around(26))
    claim = found("bigger-is-better")
    assert (claim.verdict, claim.notes) == ("holds", ())
    assert [s.estimate.n for s in claim.standings] == [3, 3, 3]


def test_does_not_hold_also_between_rows_that_are_not_adjacent(house):
    # big and base are tied, base and small are tied, but small clearly beats big.
    run_rows(house, big=around(27.0), base=[26.0, 27.2, 28.4], small=around(27.5))
    claim = found("bigger-is-better")
    assert claim.verdict == "does not"
    assert claim.notes == ("small beats big",)


def test_undecided_where_the_interval_includes_the_other_order(house):
    run_rows(house, big=[28.0, 29.0, 30.0], base=[27.9, 28.9, 29.9], small=around(20))
    claim = found("bigger-is-better")
    assert claim.verdict == "undecided"
    assert claim.notes == ("big, base: the interval includes the other order",)


def test_undecided_with_single_seeds_however_far_apart(house):
    run_rows(house, big=[40.0], base=[20.0], small=[1.0])
    assert found("bigger-is-better").verdict == "undecided"
    assert "one seed says nothing of the spread" in found("bigger-is-better").notes[0]


def test_undecided_with_a_row_missing_but_contradiction_still_counts(house):
    run_rows(house, big=around(30), base=around(28))
    assert found("bigger-is-better").verdict == "undecided"
    assert "no number for small" in found("bigger-is-better").notes
    house.run("toy/big", around(10), finished="2026-03-01T00:00:00Z")
    assert found("bigger-is-better").verdict == "does not"


def test_lower_is_better_is_respected(house):
    goal = "{table: table1, row: %s, metric: ppl, measured: test/bleu}"
    house.run(house.recipe("big", goal % "big"), around(3))
    house.run(house.recipe("base", goal % "base"), around(5))
    assert found("lower-perplexity").verdict == "holds"


@pytest.mark.parametrize(
    ("base", "small", "verdict"),
    [
        (28.0, 27.9, "holds"),
        (27.9, 28.0, "holds"),  # a tie either way round
        (26.0, 28.0, "does not"),
        (30.0, 27.0, "undecided"),  # a tie in the paper, none here
    ],
)
def test_a_published_tie_is_held_to_its_tolerance(house, base, small, verdict):
    run_rows(house, base=around(base), small=around(small))
    assert found("base-ties-small").verdict == verdict


def test_scales_are_separate(house):
    run_rows(house, big=around(30), base=around(28), small=around(26))
    run_rows(house, scale="cpu", big=around(1), base=around(2), small=around(3))
    assert found("bigger-is-better").verdict == "holds"
    assert found("bigger-is-better", "cpu").verdict == "does not"


def test_one_row_alone_is_no_claim_at_a_reduced_scale(house):
    house.recipe("big")
    house.recipe("big", scale="cpu")
    assert [c.scale for c in claims(compare()) if c.trend.id == "bigger-is-better"] == ["paper"]


def support(house, row, values, extra="", unit="BLEU", trend="bigger-is-better", **protocol):
    name = house.write(row, "title: x\nreproduces: []\n")
    entry = f"{{trend: {trend}, as: {row}, measured: test/bleu{extra}}}"
    house.write(row, f"supports: [{entry}]\nmodel: {{a: {row}}}\n", "cpu")
    for seed, value in enumerate(values):
        numbers = [Measurement("test/bleu", value, unit, "test", protocol)]
        house.record(name, seed, value, "cpu", metrics=numbers)


def test_supports_stand_for_rows_with_their_own_direction(house):
    support(house, "big", around(1), ", better: lower", "seconds")
    support(house, "base", around(2), ", better: lower", "seconds")
    support(house, "small", around(3), ", better: lower", "seconds")
    assert found("bigger-is-better", "cpu").verdict == "holds"


def test_supports_with_their_own_tolerance(house):
    for row, value in (("big", 1.0), ("base", 1.5), ("small", 2.0)):
        support(house, row, around(value), ", tolerance: 3.0")
    # Every pair is a tie at this tolerance, so nothing contradicts the order.
    assert found("bigger-is-better", "cpu").verdict == "holds"


def test_other_units_are_not_compared(house):
    support(house, "big", around(30), unit="BLEU")
    support(house, "base", around(20), unit="percent")
    claim = found("bigger-is-better", "cpu")
    assert (claim.verdict, claim.notes[0]) == ("undecided", "units differ: BLEU, percent")


def test_rows_whose_scores_are_signed_differently_are_not_compared(house):
    for row, value, tokens in (("big", 30, "13a"), ("base", 20, "intl"), ("small", 10, "13a")):
        support(house, row, around(value), signature=f"tok:{tokens}")
    claim = found("bigger-is-better", "cpu")
    assert (claim.verdict, claim.notes[0]) == ("undecided", "scored differently: tok:13a; tok:intl")


def test_rows_whose_scores_are_signed_alike_are_compared(house):
    for row, value in (("big", 30), ("base", 20), ("small", 10)):
        support(house, row, around(value), signature="tok:13a")
    assert found("bigger-is-better", "cpu").verdict == "holds"


def test_a_support_of_a_row_that_the_trend_does_not_have(house):
    support(house, "rival", [1.0])
    with pytest.raises(UserError, match="no row 'rival'"):
        claims(compare())


def test_weak_records_are_marked_in_the_claim(house):
    run_rows(house, base=around(28), small=around(26))
    house.run(house.recipe("big"), around(30), dirty=True)
    assert "big: uncommitted changes (seeds 0, 1, 2)" in found("bigger-is-better").notes


def level(house, extra):
    """The claim that base and small are alike, of numbers in a unit of their own."""
    for row, value in (("base", 1), ("small", 9)):
        support(house, row, around(value), f", better: lower{extra}", "nats", "base-ties-small")
    return found("base-ties-small", "cpu")


def test_what_the_paper_shows_level_must_be_level_in_our_unit_too(house):
    assert level(house, ", tolerance: 20.0").verdict == "holds"


def test_what_the_paper_shows_level_and_is_not_here_is_not_shown(house):
    claim = level(house, ", tolerance: 2.0")
    assert claim.verdict == "undecided"
    assert claim.notes == ("base, small: a tie in the paper, further apart here",)
