import pytest
from repro.evidence.claims import claims

from repro.errors import UserError
from repro.evidence.compare import compare
from repro.record import Measurement
from tests.report.fakes import PUBLISHED


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
        ("bigger-is-better", "no recipe", None),
        ("base-ties-small", "no recipe", None),
        ("lower-perplexity", "no recipe", None),
    ]


def test_not_run(house):
    house.recipe("big")
    assert found("bigger-is-better").verdict == "not run"


def test_holds_with_a_tie_where_the_paper_prints_one(house):
    run_rows(house, big=around(30), base=around(28), small=around(27.9))
    claim = found("bigger-is-better")
    assert (claim.verdict, claim.notes) == ("holds", ())
    assert [s.estimate.n for s in claim.standings] == [3, 3, 3]


def test_does_not_hold_where_the_order_is_reversed(house):
    run_rows(house, big=around(20), base=around(28), small=around(27.9))
    claim = found("bigger-is-better")
    assert claim.verdict == "does not"
    assert "base is ahead of big" in claim.notes[0]


def test_does_not_hold_where_a_tie_is_none_here(house):
    run_rows(house, base=around(30), small=around(20))
    assert found("base-ties-small").verdict == "does not"


def test_undecided_where_nothing_is_shown(house):
    run_rows(house, big=[28.0, 29.0, 30.0], base=[27.9, 28.9, 29.9], small=around(28.8))
    claim = found("bigger-is-better")
    assert claim.verdict == "undecided"
    assert "big > base" in claim.notes[0]


def test_an_undecided_claim_says_how_long_the_missing_seeds_take(house):
    run_rows(house, big=[30.0, 30.1], base=around(28), small=around(27.9))
    assert found("bigger-is-better").notes[0] == "big: 2 of 3 seeds (about 1 min 01 s more)"


def test_a_claim_whose_rows_cannot_be_run_says_why(house):
    house.publish(
        PUBLISHED.replace(
            "[big, base, small]}", "[big, base, small], at: {paper: {out_of_reach: two years}}}"
        )
    )
    run_rows(house, big=around(30), base=around(28))
    claim = found("bigger-is-better")
    assert (claim.verdict, claim.notes) == ("out of reach", ("two years",))
    run_rows(house, small=around(27.9))
    assert found("bigger-is-better").verdict == "holds", "records are judged whatever was written"


def test_a_row_without_records_makes_a_claim_incomplete(house):
    run_rows(house, big=around(30), base=around(28))
    assert found("bigger-is-better").verdict == "incomplete"
    assert "small" in found("bigger-is-better").notes[0]


def test_lower_is_better_is_respected(house):
    goal = "{table: table1, row: %s, metric: ppl, measured: test/bleu}"
    house.run(house.recipe("big", goal % "big"), around(3))
    house.run(house.recipe("base", goal % "base"), around(5))
    assert found("lower-perplexity").verdict == "holds"


def test_scales_are_separate(house):
    run_rows(house, big=around(30), base=around(28), small=around(28))
    run_rows(house, scale="cpu", big=around(1), base=around(2), small=around(3))
    assert found("bigger-is-better").verdict == "holds"
    assert found("bigger-is-better", "cpu").verdict == "does not"


def test_one_row_alone_is_no_claim_at_a_reduced_scale(house):
    house.recipe("big")
    house.recipe("big", scale="cpu")
    assert [c.scale for c in claims(compare()) if c.trend.id == "bigger-is-better"] == ["paper"]


def support(house, row, values, extra="", unit="BLEU", trend="bigger-is-better", protocol=None, **changes):
    name = house.write(row, "title: x\nreproduces: []\n")
    entry = f"{{trend: {trend}, as: {row}, measured: test/bleu{extra}}}"
    house.write(row, f"supports: [{entry}]\nmodel: {{a: {row}}}\n", "cpu")
    for seed, value in enumerate(values, 1):
        numbers = [Measurement("test/bleu", value, unit, "test", protocol or {}, changes.get("count", 50))]
        rest = {k: v for k, v in changes.items() if k != "count"}
        house.record(name, seed, value, "cpu", metrics=numbers, **rest)


def supports(house, **changes):
    """Three rows in the stated order; ``changes`` are those of the first."""
    support(house, "big", around(30), **changes)
    support(house, "base", around(28))
    support(house, "small", around(28))
    return found("bigger-is-better", "cpu")


def test_supports_stand_for_rows_with_their_own_direction(house):
    for row, value in (("big", 1), ("base", 2), ("small", 2)):
        support(house, row, around(value), ", better: lower")
    assert found("bigger-is-better", "cpu").verdict == "holds"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, None),
        ({"unit": "percent"}, "unit"),
        ({"protocol": {"signature": "tok:intl"}}, "signature"),
        ({"count": 30}, "items"),
        ({"steps": 50}, "budget"),
        ({"tokens": 4000}, "tokens"),
        ({"tokens": 4950}, None),  # whole sentences fill batches unevenly
        ({"data": {"name": "other-text"}}, "data"),
    ],
)
def test_rows_of_a_claim_share_protocol_data_and_budget(house, changes, named):
    claim = supports(house, **changes)
    assert claim.verdict == ("undecided" if named else "holds")
    assert named is None or named in claim.notes[0]


def test_a_trend_may_say_what_it_varies(house):
    house.publish(PUBLISHED.replace("order_best_first: [big, base, small]", "varies: [budget], order_best_first: [big, base, small]"))  # fmt: skip # noqa: E501
    assert supports(house, steps=50).verdict == "holds"


def terms(house, text, trend="base-ties-small"):
    house.publish(PUBLISHED.replace(f"{{id: {trend},", f"{{id: {trend}, {text},"))


def test_a_scale_has_a_margin_of_its_own(house):
    for row, value in (("base", 1), ("small", 9)):
        support(house, row, around(value), ", better: lower", "nats", "base-ties-small")
    assert found("base-ties-small", "cpu").verdict == "undecided"  # nothing says what equal means in nats
    terms(house, "at: {cpu: {margin: {size: 20, set: '2026-01-01', reason: wide}}}")
    assert found("base-ties-small", "cpu").verdict == "holds"
    terms(house, "at: {cpu: {margin: {size: 2, set: '2026-01-01', reason: narrow}}}")
    assert found("base-ties-small", "cpu").verdict == "does not"


@pytest.mark.parametrize("where", ["margin: {}", "at: {{cpu: {{margin: {}}}}}"])
def test_a_margin_that_is_younger_than_the_runs_is_refused(house, where):
    supports(house)
    chosen = where.format("{size: 0.4, set: '2099-01-01', reason: wish}")
    terms(house, chosen, "bigger-is-better")
    with pytest.raises(UserError, match="was set on 2099-01-01, after a run of"):
        found("bigger-is-better", "cpu")
    terms(house, chosen.replace("2099", "2001"), "bigger-is-better")
    assert found("bigger-is-better", "cpu").verdict == "holds"


def test_a_mechanism_check_is_not_counted(house):
    assert supports(house).is_counted
    terms(house, "at: {cpu: {mechanism: the answer is out of reach}}", "bigger-is-better")
    claim = found("bigger-is-better", "cpu")
    assert (claim.verdict, claim.is_counted) == ("holds", False)


PART = "  - {id: part, claim: Big beats base., table: table1, metric: bleu, order_best_first: [big, base], part_of: bigger-is-better, ours: '2026-01-01'}\nmissing:"  # fmt: skip # noqa: E501


def test_one_datum_serves_one_claim(house):
    house.publish(PUBLISHED.replace("missing:", PART))
    run_rows(house, big=around(30), base=around(28))
    assert (found("bigger-is-better").verdict, found("part").verdict) == ("incomplete", "holds")
    assert found("part").is_counted
    run_rows(house, small=around(28))
    assert found("bigger-is-better").verdict == "holds"
    assert found("part").repeats == "bigger-is-better"
    assert found("base-ties-small").repeats == "bigger-is-better"
    assert [c.trend.id for c in claims(compare()) if c.is_counted and c.verdict == "holds"] == [
        "bigger-is-better"
    ]


def test_a_support_of_a_row_that_the_trend_does_not_have(house):
    support(house, "rival", [1.0])
    with pytest.raises(UserError, match="'rival'"):
        claims(compare())


def test_weak_records_are_marked_in_the_claim(house):
    run_rows(house, base=around(28), small=around(26))
    house.run(house.recipe("big"), around(30), dirty=True)
    assert "big: uncommitted changes (seeds 1, 2, 3)" in found("bigger-is-better").notes


def test_a_claim_needs_clean_commits(house):
    run_rows(house, base=around(28), small=around(28))
    house.run(house.recipe("big"), around(30), dirty=True)
    claim = found("bigger-is-better")
    assert (claim.verdict, "big" in claim.notes[0]) == ("undecided", True)


def test_an_extended_claim_is_held_to_the_stricter_level(house):
    house.publish(PUBLISHED.replace("[big, base, small]", "[big, base]", 1))
    run_rows(house, big=[30.0, 31.0, 32.0], base=[28.0, 29.0, 30.0])  # p = 0.035
    assert found("bigger-is-better").verdict == "holds"
    text = (house.configs / "toy" / "big.yaml").read_text()
    house.write("big", f"{text}seeds: 1-2\nextended_to: 1-3\n")
    claim = found("bigger-is-better")
    assert (claim.verdict, "extended: judged at 2.5 %" in claim.notes) == ("undecided", True)


def test_an_extended_claim_is_judged_when_all_its_seeds_have_run(house):
    house.publish(PUBLISHED.replace("[big, base, small]", "[big, base]", 1))
    run_rows(house, big=around(30), base=around(28))
    text = (house.configs / "toy" / "big.yaml").read_text()
    house.write("big", f"{text}seeds: 1-2\nextended_to: 1-4\n")
    claim = found("bigger-is-better")
    assert (claim.verdict, claim.notes[0]) == (
        "undecided",
        "extended, and not complete: big has 3 of 4 seeds",
    )


def test_of_several_experiments_for_a_row_the_best_on_validation_stands_in_a_claim(house):
    house.publish(PUBLISHED.replace("[big, base, small]", "[big, base]", 1))
    run_rows(house, base=around(28))
    for name, test, val in (("better-on-test", 30.0, 20.0), ("better-on-validation", 25.0, 21.0)):
        numbers = [Measurement("test/bleu", test, "BLEU", "test", {}, 50, val)]
        house.run(house.recipe("big", name=name), [test] * 3, metrics=numbers)
    claim = found("bigger-is-better")
    assert [s.estimate.mean for s in claim.standings] == [25.0, 28.0]
    assert "big: also toy/better-on-test" in claim.notes


def test_what_is_claimed_of_neighbours_follows_from_the_printed_numbers(house):
    run_rows(house, big=around(30), base=around(30.1))
    assert found("bigger-is-better").relations == [">", "="]
    house.publish(PUBLISHED.replace("[big, base, small]", "[big, base], not_worse: true", 1))
    claim = found("bigger-is-better")
    assert (claim.relations, claim.verdict) == ([">="], "holds")
