"""Numbers that are derived from the records behind others."""

import re

import pytest

from repro.errors import UserError
from repro.evidence.compare import compare
from repro.evidence.derived import training_hours
from repro.evidence.entries import UNEXPLAINED
from repro.record import Measurement
from tests.report.fakes import PUBLISHED, make_record

SPEEDS = [
    [50, 10.0],
    [100, 40.0],
]  # tokens/s: the second half of 7,200 tokens takes a quarter of the time of the first
CURVES = {"train/tokens_per_s": SPEEDS, "val/bleu": [[25, 10.0], [50, 27.0], [75, 29.0], [100, 26.0]]}


def publish(house, how, kind="timed"):
    """Table 1's speed is derived so."""
    column = "speed: {unit: tokens/s, better: higher, class: timed,"
    assert column in PUBLISHED
    text = PUBLISHED.replace(column, f"speed: {{unit: u, better: higher, class: {kind}, derived: {how},")
    house.publish(
        text.replace("values: {bleu: 30.0, ppl: 4.0}", "values: {bleu: 30.0, ppl: 4.0, speed: 800}")
    )


def derived(row="base", paper="toy"):
    entry = compare().entries[paper, "table1", row, "speed"]
    return entry, next((cell for cell in entry.cells), None)


def run(house, **rows):
    """Records whose scores on validation are those of the test, but for base's, which has a curve."""
    for row, values in rows.items():
        name = house.recipe(row)
        for seed, value in enumerate(values, 1):
            curves = CURVES if row == "base" else CURVES | {"val/bleu": [[50, value]]}
            house.record(name, seed, value, curves=curves, tokens=7200)


def test_the_hours_of_training_follow_from_tokens_and_speeds(house):
    house.recipe("base")
    record = make_record("toy/base", 1, 28.0)
    record.tokens, record.curves = 7200, CURVES
    assert training_hours(record) == pytest.approx(7200 * (1 / 10 + 1 / 40) / 2 / 3600)
    assert training_hours(record, 50) == pytest.approx(3600 / 10 / 3600)
    record.curves = {}
    assert training_hours(record) is None


@pytest.mark.parametrize(
    ("how", "values"),
    [
        ("{of: 'table1/{row}/bleu', take: score}", [27.0, 28.0, 30.0]),
        ("{of: 'table1/{row}/bleu', take: score, over: table1/big/bleu}", [27 / 30, 28 / 30, 1.0]),
        ("{of: 'table1/{row}/bleu', take: spread}", [pytest.approx(1.5275, abs=1e-4)]),
        ("{of: 'table1/{row}/bleu', take: rank}", [2.0]),
        ("{of: 'table1/{row}/bleu', take: hours}", [pytest.approx(0.125)] * 3),
        ("{of: 'table1/{row}/bleu', take: hours, over: table1/big/bleu}", [pytest.approx(1.0)] * 3),
        ("{of: 'table1/{row}/bleu', take: step_time}", [pytest.approx(4.5)] * 3),
        ("{of: 'table1/{row}/bleu', take: training_speed, per: devices}", [pytest.approx(16.0)] * 3),
        ("{of: 'table1/{row}/bleu', take: first, reaches: table1/small/bleu, per: 25}", [2.0] * 3),
        ("{of: 'table1/{row}/bleu', take: first_hours, reaches: table1/small/bleu}", [pytest.approx(0.1)] * 3),
    ],
)  # fmt: skip
def test_what_is_taken(house, how, values):
    kind = "timed" if re.search("take: (hours|step_time|training_speed|first_hours)", how) else "derived"
    publish(house, how, kind)
    run(house, base=[27.0, 28.0, 30.0], big=[29.0, 30.0, 31.0], small=[26.0, 27.0, 28.0])
    entry, cell = derived()
    assert [m.value for _, m in cell.sample.measured] == values
    assert entry.verdict == kind


def test_a_value_that_no_run_reaches_is_not_called_a_missing_run(house):
    publish(house, "{of: 'table1/{row}/bleu', take: first, reaches: table1/big/bleu}", "derived")
    run(house, base=[27.0, 28.0, 30.0])
    assert derived()[0].verdict == "not run", "there is nothing to reach yet"
    run(house, big=[29.0, 30.0, 31.0])
    entry, cell = derived()
    assert (entry.verdict, cell.why) == (
        "no value",
        "none of 3 runs had a validation score that reaches table1/big/bleu",
    )


def test_runs_that_do_not_reach_a_value_are_told(house):
    publish(house, "{of: 'table1/{row}/bleu', take: first, reaches: table1/big/bleu}", "derived")
    run(house, big=[28.9, 29.0, 29.1])
    name = house.recipe("base")
    for seed, best in ((1, 29.0), (2, 30.0), (3, 28.0)):
        house.record(name, seed, best, curves=CURVES | {"val/bleu": [[25, 10.0], [50 * seed, best]]})
    entry, cell = derived()
    assert [m.value for _, m in cell.sample.measured] == [50.0, 100.0]
    assert (entry.verdict, cell.notes) == (
        "derived",
        ("2 of 3 runs had a validation score that reaches table1/big/bleu",),
    )


def test_what_is_to_be_reached_is_a_score_on_validation(house):
    publish(house, "{of: 'table1/{row}/bleu', take: first, reaches: table1/big/bleu}", "derived")
    run(house, base=[27.0, 28.0, 30.0])
    name = house.recipe("big")
    for seed, best in ((1, 26.0), (2, 28.0)):
        house.record(name, seed, 99.0, curves={"val/bleu": [[10, 1.0], [20, best], [30, None], [40, 20.0]]})
    assert [m.value for _, m in derived()[1].sample.measured] == [50.0] * 3


def test_a_spread_needs_two_runs(house):
    publish(house, "{of: 'table1/{row}/bleu', take: spread}", "derived")
    name = house.recipe("base")
    house.record(name, 1, 27.0)
    entry, cell = derived()
    assert (entry.verdict, cell.why) == ("no value", "a spread needs two runs")
    house.record(name, 2, 28.0)
    entry, cell = derived()
    assert (entry.verdict, cell.why, cell.notes) == ("derived", "", ())


def test_records_without_speeds_give_no_time(house):
    publish(house, "{of: 'table1/{row}/bleu', take: hours}")
    house.run(house.recipe("base"), [27.0, 28.0, 30.0])
    entry, cell = derived()
    assert (entry.verdict, cell.why) == ("no value", "none of 3 runs gave it")


def test_a_quotient_by_nothing_has_no_value(house):
    publish(house, "{of: 'table1/{row}/bleu', take: score, over: table1/big/bleu}", "derived")
    run(house, base=[27.0, 28.0, 30.0], big=[0.0, 0.0, 0.0])
    assert derived()[0].verdict == "no value"


@pytest.mark.parametrize(("big", "rank"), [(28.5, 1.0), (29.0, 2.0)])  # the margin is 0.5
def test_rows_within_the_margin_have_one_rank_and_all_rows_are_needed(house, big, rank):
    publish(house, "{of: 'table1/{row}/bleu', take: rank}", "derived")
    run(house, base=[28.0] * 3)
    assert derived()[0].verdict == "not run", "the rank of big is published too"
    run(house, big=[big] * 3)
    assert (derived()[1].estimate.mean, derived("big")[1].estimate.mean) == (rank, 1.0)


def test_the_speed_of_the_evaluation_that_gave_the_number(house):
    publish(house, "{of: 'table1/{row}/bleu', take: speed, per: devices}")
    name = house.recipe("base", "{table: table1, row: base, metric: bleu, measured: test/bleu_sw512}")
    metrics = [
        Measurement("test/bleu_sw512", 28.0, "BLEU", "test"),
        Measurement("test/tokens_per_s", 1.0, "tokens/s", "test"),
        Measurement("test/tokens_per_s_sw512", 600.0, "tokens/s", "test"),
    ]
    house.record(name, 1, 28.0, metrics=metrics, hardware={"device": "GPU", "count": 4})
    assert [m.value for _, m in derived()[1].sample.measured] == [150.0]


def test_a_derived_number_stands_at_the_scales_of_the_number_it_is_made_of(house):
    publish(house, "{of: 'table1/{row}/bleu', take: score, over: table1/big/bleu}", kind="derived")
    for row in ("base", "big"):
        house.recipe(row)
        house.run(house.recipe(row, scale="cpu", width=2), [20.0, 21.0, 22.0], "cpu")
    entry, _ = derived()
    assert {cell.goal.scale: cell.verdict for cell in entry.cells} == {
        "paper": "not run",
        "cpu": "reduced scale",
    }
    assert entry.verdict == "reduced scale"
    run(house, base=[20.0, 21.0, 22.0], big=[40.0, 40.0, 40.0])
    assert derived()[0].verdict == "derived"
    assert derived()[0].paper_cells[0].estimate.mean == pytest.approx(21 / 40)


def test_without_a_recipe_there_is_nothing_to_derive_from(house):
    publish(house, "{of: 'table1/{row}/bleu', take: hours}")
    entry, cell = derived()
    assert (cell, entry.verdict, entry.reason) == (None, "no recipe", UNEXPLAINED)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("{take: hours}", "derived.of: is missing"),
        ("{of: table1/base/bleu, take: best}", "take: Input should be 'score', 'spread'"),
        ("{of: table1/base/bleu, take: hours, ove: x}", "derived.ove: no such key; nearest: over"),
        ("{of: table1/base, take: hours}", "'table1/base': write table/row/metric"),
        ("{of: table1/base/bleu, take: first}", "`reaches` goes with first"),
        ("{of: table1/base/bleu, take: hours, reaches: table1/base/bleu}", "`reaches` goes with first"),
        ("{of: table1/base/bleu, take: hours, per: 0}", "Input should be greater than 0"),
        ("{of: table1/base/bleu, take: spread, per: 2}", "`per` divides nothing of a spread"),
        ("{of: table1/base/bleu, take: speed, over: table1/big/bleu}", "`over` divides score, hours"),
        ("{of: table1/base/bleu, take: rank, over: table1/big/bleu}", "`over` divides score, hours"),
        ("{of: table1/base/bleu, take: spread}", "write `class: derived`"),
        ("{of: table1/bas/bleu, take: hours}", "table1 has no row 'bas'; nearest: base"),
        ("{of: table1/base/bleu, take: hours, over: table1/base/blue}", "table1 has no metric 'blue'"),
        ("hours", "derived: Input should be a valid dictionary"),
    ],
)
def test_refused(house, how, message):
    publish(house, how)
    with pytest.raises(UserError) as error:
        compare()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "kind", ["derived", "trained, counted: false, margin: {size: 1%, set: '2026-01-01', reason: speeds}"]
)
@pytest.mark.parametrize("take", ["hours", "first_hours, reaches: table1/big/bleu, over: table1/big/bleu"])
def test_times_of_different_runs_are_never_judged(house, take, kind):
    publish(house, f"{{of: table1/base/bleu, take: {take}}}", kind)
    with pytest.raises(UserError, match="write `class: timed`, as it rests on the times of runs"):
        compare()
