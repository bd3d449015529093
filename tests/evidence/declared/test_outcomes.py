"""The outcomes of declared tests, each verdict and what keeps a test from one."""

import pytest

from repro.errors import UserError
from repro.evidence.compare import compare
from repro.evidence.declared.outcomes import outcomes
from repro.record import Measurement
from repro.report.views.words import effect_words
from tests.evidence.tested_rows import ORDER, around, outcome, recipes, run_row, run_rows
from tests.report.fakes import PUBLISHED, TEST, UNTESTED

ROWS = {"big": around(30), "base": around(28), "small": around(27.9)}  # printed: 30.0, 28.0, 27.8


def test_planned(house):
    recipes(house, "big", "base")
    assert (outcome().verdict, outcome().counts) == ("planned", False)


def test_not_run(house):
    recipes(house, "big", "base")
    house.declare()
    assert (outcome().verdict, outcome().conditions) == ("not run", ())


def test_a_row_without_records_makes_a_test_incomplete(house):
    recipes(house, "small")
    run_rows(house, big=around(30), base=around(28))
    assert (outcome().verdict, outcome().why) == ("incomplete", "no record of small")


def test_a_test_is_judged_once_with_all_its_seeds(house):
    run_rows(house, **ROWS | {"base": [28.0, 28.1]})
    assert (outcome().verdict, outcome().why) == ("incomplete", "base has 2 of 3 seeds")


def test_same_order_with_a_tie_where_the_paper_prints_one(house):
    run_rows(house, **ROWS)
    one = outcome()
    assert (one.verdict, one.why, one.notes, one.counts) == ("same order", "", (), True)
    assert [(s.row, s.relation, s.estimate.n, s.published) for s in one.results] == [
        ("big", ">", 3, 30.0),
        ("base", "=", 3, 28.0),
        ("small", "", 3, 27.8),
    ]
    assert [c.name for c in one.conditions if c.met] == ["declared", "column", "room"]


def test_other_order_where_rows_are_reversed(house):
    run_rows(house, **ROWS | {"big": around(20)})
    assert (outcome().verdict, outcome().why) == ("other order", "base is ahead of big")


def test_other_order_where_a_tie_is_none_here(house):
    run_rows(house, **ROWS | {"small": around(20)})
    assert (outcome().verdict, outcome().why) == (
        "other order",
        "base is ahead of small by more than the margin",
    )


def test_no_clear_order_where_nothing_is_shown(house):
    run_rows(house, big=[28.0, 29.0, 30.0], base=[27.9, 28.9, 29.9], small=around(28.8))
    one = outcome()
    assert one.verdict == "no clear order"
    assert "big > base (power" in one.why


def test_an_open_test_says_how_long_more_seeds_take(house):
    run_rows(house, text=TEST, big=[29.0, 30.0, 31.0], base=[28.0, 29.0, 30.0])
    assert outcome().why.endswith("10 seeds a row would decide at this spread (about 14 min 14 s more)")


def test_not_a_fair_test_says_which_condition_is_not_met(house):
    run_rows(house, unit="percent", **ROWS)
    one = outcome()
    assert (one.verdict, one.counts) == ("not a fair test", False)
    assert one.why == "column (percent is not what bleu measures (BLEU))"
    assert [(c.name, c.met) for c in one.conditions] == [
        ("declared", True),
        ("column", False),
        ("room", True),
    ]


def test_the_direction_is_that_of_the_column_or_of_the_test(house):
    lower = ORDER.replace("measured:", "better: lower\n    measured:")
    run_rows(house, text=lower, big=around(1), base=around(9), small=around(9))
    assert outcome().verdict == "same order"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, None),
        ({"unit": "percent"}, "unit"),
        ({"protocol": {"signature": "tok:intl"}}, "signature"),
        ({"count": 30}, "items scored: 30 to 50"),
        ({"steps": 50}, "budget: 100 updates; 50 updates"),
        ({"tokens": 4000}, "tokens trained on: 4,000 to 5,000"),
        ({"tokens": 4950}, None),  # whole sentences fill batches unevenly
        ({"data": {"name": "other-text"}}, "data"),
    ],
)
def test_rows_share_protocol_data_and_budget(house, changes, named):
    run_rows(house, **ROWS | {"big": (around(30), changes)})
    one = outcome()
    assert one.verdict == ("not a fair test" if named else "same order")
    assert named is None or f"the rows differ in {named}" in one.why


@pytest.mark.parametrize(("varies", "changes"), [("budget", {"steps": 50}), ("items", {"count": 9})])
def test_a_test_may_say_what_varies(house, varies, changes):
    text = ORDER.replace("measured:", f"varies: [{varies}]\n    measured:")
    run_rows(house, text=text, **ROWS | {"big": (around(30), changes)})
    assert outcome().verdict == "same order"


def test_of_several_numbers_of_a_run_the_row_takes_its_own(house):
    text = TEST.replace("base: toy/base", "base: {run: toy/big, measured: test/other}")
    recipes(house, "big")
    house.declare(text)
    numbers = [
        Measurement("test/bleu", 30.0, "BLEU", "test"),
        Measurement("test/other", 20.0, "BLEU", "test"),
    ]
    run_row(house, "big", around(30), metrics=numbers)
    assert [s.estimate.mean for s in outcome().results] == [30.0, 20.0]
    assert outcome().verdict == "same order"


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        (
            {"data": {"name": "toy-text", "manifest_sha256": "b" * 64}},
            "different data between rows: bbbbbbbb (big); aaaaaaaa (base, small)",
        ),
        (
            {"hardware": {"device": "H100", "count": 1}},
            "different devices between rows: H100 (big); CPU (base, small)",
        ),
        ({"parameters": 9}, "different parameters between rows: 9 (big); 1,234 (base, small)"),
        (
            {"versions": {"torch": "9"}},
            "different versions of torch between rows: 9 (big); 2.13.0 (base, small)",
        ),
    ],
)
def test_rows_that_differ_in_data_device_or_torch_are_marked(house, changes, note):
    run_rows(house, **ROWS | {"big": (around(30), changes)})
    assert outcome().notes == (note,)


def test_weak_records_are_marked_and_dirty_ones_are_not_judged(house):
    run_rows(house, **ROWS | {"big": (around(30), {"dirty": True})})
    one = outcome()
    assert (one.verdict, one.why) == ("not a fair test", "not all commits are clean: big")
    assert one.notes == ("big: uncommitted changes (seeds 1, 2, 3)",)


@pytest.mark.parametrize(
    ("changes", "verdict"), [("--trainer.devices=2", "same order"), ("--model.width=9", "incomplete")]
)
def test_settings_that_change_results_set_a_run_aside(house, changes, verdict):
    run_rows(house, **ROWS | {"big": (around(30), {"overrides": [changes]})})
    assert outcome().verdict == verdict


# --- margins ------------------------------------------------------------------------------------------------


def tie(house, text, unit="nats", other="a loss"):
    head = TEST.replace("bigger-is-better", "base-ties-small").replace(
        "{big: toy/big, base: toy/base}", "{base: toy/base, small: toy/small}"
    )
    head = head.replace("measured:", f"better: lower\n    other_quantity: {other}\n    {text}measured:")
    recipes(house, "base", "small")
    house.declare(
        head, untested="untested: {bigger-is-better: {gpu_hours: 8}, lower-perplexity: {gpu_hours: 9}}"
    )
    for row, value in (("base", 101), ("small", 109)):
        run_row(house, row, around(value), unit=unit)
    return outcome("base-ties-small/1").verdict


MARGIN = "margin: {size: %s, set: '2026-01-01', reason: toys}\n    "


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("", "no clear order"), (MARGIN % 20, "same order"), (MARGIN % 2, "other order")],
)
def test_another_quantity_has_a_margin_of_its_own_or_no_ties(house, text, verdict):
    assert tie(house, text) == verdict


def test_a_margin_needs_a_reason_and_an_early_date(house):
    with pytest.raises(UserError, match="the margin of a test needs `reason"):
        tie(house, (MARGIN % 20).replace(", reason: toys", ""))
    with pytest.raises(UserError, match="was set on 2099-01-01, after a run began on 2026-01-0"):
        tie(house, (MARGIN % 20).replace("2026", "2099"))


def test_the_claim_has_a_margin_for_what_is_printed(house):
    apart = "margin: {size: 0.1, set: '2026-01-01', reason: narrow}, table: table1, metric: bleu, order: [big"
    house.publish(PUBLISHED.replace("table: table1, metric: bleu, order: [big", apart))
    run_rows(house, **ROWS)
    assert [s.relation for s in outcome().results] == [">", ">", ""]


def test_not_worse(house):
    house.publish(
        PUBLISHED.replace("order: [big, base, small]}", "order: [big, base, small], not_worse: true}")
    )
    run_rows(house, text=TEST, big=around(27.8), base=around(28))
    one = outcome()
    assert ([s.relation for s in one.results], one.verdict) == ([">=", ""], "same order")


# --- extensions ---------------------------------------------------------------------------------------------

CLOSE = {"big": [30.0, 31.0, 32.0], "base": [28.0, 29.0, 30.0]}  # p = 0.035


def test_an_extended_test_is_held_to_the_stricter_level(house):
    run_rows(house, text=TEST, **CLOSE)
    assert outcome().verdict == "same order"


def test_an_extended_test_is_judged_when_all_its_seeds_have_run(house):
    text = TEST.replace("measured:", "seeds: 1-2\n    extended_to: 1-3\n    measured:")
    run_rows(house, text=text, big=CLOSE["big"], base=CLOSE["base"][:2])
    assert (outcome().verdict, outcome().why) == ("incomplete", "base has 2 of 3 seeds")
    run_row(house, "base", CLOSE["base"][2:], seeds=[3])
    assert outcome().verdict == "no clear order"


def test_only_an_open_result_is_extended(house):
    text = TEST.replace("measured:", "extended_to: 1-6\n    measured:")
    run_rows(house, text=text, big=[33, 33.1, 33.2, 20, 40, 9], base=[30, 30.1, 30.2, 33, 30, 30])
    assert outcome().verdict == "same order"


def test_the_extension_of_a_decided_test_does_not_hide_it(house):
    text = TEST.replace("measured:", "extended_to: 1-20\n    measured:")
    run_rows(house, text=text, big=around(30), base=around(33))
    assert outcome().verdict == "other order"


# --- what is shown ------------------------------------------------------------------------------------------


def test_effects_are_in_per_cent_of_the_second_row_beside_the_papers(house):
    run_rows(house, text=TEST, big=around(33), base=around(30))
    (effect,) = outcome().effects
    assert (effect.rows, effect.ours) == (("big", "base"), pytest.approx(10.0))
    assert effect.low < 10.0 < effect.high
    assert effect.published == pytest.approx(100 * 2 / 28)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (TEST.replace("measured:", "better: lower\n    measured:"), "BLEU"),  # as seconds beside a speed
        (TEST.replace("measured:", "better: lower\n    measured:"), "bits per byte"),
        (TEST, "percent"),
    ],
)
def test_the_papers_effect_in_another_quantity_is_not_shown(house, text, unit):
    high, low = (around(30), around(33)) if "lower" in text else (around(33), around(30))
    run_rows(house, text=text, big=(high, {"unit": unit}), base=(low, {"unit": unit}))
    (effect,) = outcome().effects
    assert effect.ours > 0
    assert effect.published is None


def test_a_path_has_the_validation_at_parts_of_the_budget(house):
    curve = {"val/bleu": [[20, 5.0], [25, 6.0], [50, 10.0], [75, 11.0], [100, 12.0]]}
    run_rows(house, text=TEST, big=(around(33), {"curves": curve}), base=(around(30), {"curves": {}}))
    assert [s.path for s in outcome().results] == [(6.0, 10.0, 12.0), (None, None, None)]


def test_the_gate_knows_the_tuning_runs_of_each_row(house):
    swept = "{key: model.width, values: [1, 2, 3]}"
    text = TEST.replace(
        "tuned: nothing", f"competent: {{row: base, level: 20, method: words}}\n    tuned: {swept}"
    )
    settled = {"val/bleu": [[50, 28.0], [75, 28.0], [100, 28.0]]}
    run_rows(
        house, text=text, **{n: (around(v), {"curves": settled}) for n, v in (("big", 30), ("base", 28))}
    )
    assert (
        outcome().why
        == "tuned (big: no tuning run with model.width 1, 2, 3; base: no tuning run with model.width 1, 2, 3)"
    )
    for name in ("big", "base"):
        for width in (1, 2, 3):
            house.recipe(name, scale="small", width=width)
            curve = {"val/bleu": [[100, 10.0 if width == 2 else 9.0]]}
            changes = {"overrides": [f"--model.width={width}"], "finished": "2026-01-01T00:00:00Z"}
            house.record(f"toy/{name}", 100, 9.0, "small", curves=curve, **changes)
        house.recipe(name, scale="small", width=2)
    assert (outcome().verdict, outcome().why) == ("same order", "")


def test_a_check_of_the_code_passes_no_gate_and_counts_nowhere(house):
    text = TEST.replace("scale:", "check: the answer lies beyond the segment\n    scale:")
    run_rows(house, declare=False, text=text, big=around(30), base=around(28))
    house.test(f"schema_version: 1\npaper: toy\ntests:{text}{UNTESTED}")
    one = outcome()
    assert (one.verdict, one.is_check, one.counts, one.conditions) == ("same order", True, False, ())


def test_each_attempt_is_judged_by_itself(house):
    run_rows(house, text=TEST, big=around(30), base=around(28))
    (config,) = {r.config_hash[:8] for r in compare("toy").records if r.experiment == "toy/big"}
    pinned = TEST.replace("{big: toy/big, base", f"{{big: {{run: toy/big, config: {config}}}, base")
    house.recipe("big", scale="small", width=3)
    again = TEST.replace("attempt: 1", "attempt: 2\n    changed: a wider model")
    house.declare(pinned + again.lstrip("\n"), at="2026-01-01T12:00:00Z")
    assert (outcome().verdict, outcome().attempts) == ("same order", 2)
    assert outcome("bigger-is-better/2").verdict == "incomplete"
    run_row(house, "big", around(20))
    assert (outcome().verdict, outcome("bigger-is-better/2").verdict) == ("same order", "other order")


def test_the_file_of_tests_comes_with_the_outcomes(house):
    comparison = compare("toy")
    tests, result = outcomes(comparison, comparison.papers[0])
    assert (tests.picture, [one.test for one in result]) == ("bigger-is-better/1", list(tests.tests))


def test_nothing_is_a_per_cent_of_zero(house):
    run_rows(house, text=TEST, big=around(0.3), base=[0.0, 0.0, 0.0])
    (effect,) = outcome().effects
    assert (effect.ours, effect.low, effect.high) == (None, None, None)
    assert effect.published == pytest.approx(100 * 2 / 28)
    assert effect_words(effect) == "\N{EN DASH} %, paper +7.14 %"
