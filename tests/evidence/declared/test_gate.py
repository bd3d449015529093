"""The conditions of the gate, each alone, with figures."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

from repro.evidence.declared.fair_tests import FairTest
from repro.evidence.declared.gate import Condition, GateRow, gate, movement
from repro.evidence.judging.margins import Margin, default_margin
from repro.evidence.published import Metric
from repro.record import Measurement, RunRecord

STEPS = 100
BEGAN = datetime(2026, 1, 2, tzinfo=UTC)
DECLARED = Condition("declared", True, "in time")
LEVEL = {"row": "short", "level": 100.0, "method": "Kneser-Ney 5-gram"}
SWEEP = {"key": "model.lr", "values": [0.1, 0.2, 0.3]}
PERCENT = Margin(1.0, "percent")
ABSOLUTE = Margin(1.0, "absolute")


def fair_test(**changes):
    stated = {
        "claim": "longer-is-better",
        "attempt": 1,
        "says": "Longer is better.",
        "scale": "small",
        "rows": {"long": "toy/long", "short": "toy/short"},
        "measured": "test/ppl",
        "competent": LEVEL,
        "tuned": SWEEP,
    }
    return FairTest.model_validate(stated | changes)


def column_of(unit="perplexity", better="lower", **facts):
    rules = {"class": "trained", "margin": {"size": "1%", "set": "2026-01-01", "reason": "toys"}}
    texts = {"description": "x", "dataset": "x", "split": "test"}
    return Metric.model_validate(
        {"name": "ppl", "unit": unit, "better": better, **texts, **facts, "rules": rules}
    )


def flat(value):
    return [[step, value] for step in range(5, STEPS + 1, 5)]


def falling(by, last):
    """A curve that falls by so much in each quarter, to its last value."""
    return [[step, last + by * (STEPS - step) / 25] for step in range(5, STEPS + 1, 5)]


def record(name, seed, value, curve=None, lr=0.2, unit="perplexity", protocol=None, **changes):
    """A run with one number; ``changes`` are settings of its recipe."""
    blocks = {"mixers": [{"class_path": "repro.nn.X", "init_args": {"mem_len": 16}}]}
    net = {"class_path": "repro.models.Y", "init_args": {"blocks": blocks}}
    model = {"class_path": "repro.tasks.Z", "init_args": {"lr": lr, "net": net}}
    data = {"class_path": "repro.data.D", "init_args": {"seq_len": 32, **changes}}
    measured = Measurement(
        "test/ppl", value, unit, "test", protocol or {"seq_len": 32, "mem_len": 16, "stride": 32}
    )
    facts = {
        "command": "", "commit": "0" * 40, "dirty": False, "versions": {}, "hardware": {}, "precision": "",
        "parameters": 1, "tokens": 1, "wall_seconds": 1.0, "gpu_hours": 0.0, "peak_bytes": 1,
        "checkpoint_sha256": None, "outputs_sha256": None, "data": {},
        "finished": f"2026-01-0{1 if seed >= 100 else 2}T00:00:00Z",
    }  # fmt: skip
    return RunRecord(
        experiment=f"toy/{name}", scale="small", seed=seed, run_id="", config_hash="", steps=STEPS,
        config={"title": "x", "model": model, "data": data, "trainer": {"max_steps": STEPS}},
        metrics=[measured], curves={"val/ppl": flat(value) if curve is None else curve}, **facts,
    )  # fmt: skip


def row(name, value, curve=None, tuning=None, **changes):
    made = [record(name, seed, value + 0.1 * (seed - 2), curve, **changes) for seed in (1, 2, 3)]
    scores = {0.1: value + 5, 0.2: value, 0.3: value + 9} if tuning is None else tuning
    tried = [record(name, 100, score, lr=lr) for lr, score in scores.items()]
    return GateRow(name, [(one, one.metrics[0]) for one in made], BEGAN, tried)


def judged(*rows, test=None, column=None, margin=PERCENT, declared=DECLARED):
    rows = rows or (row("long", 50.0), row("short", 60.0))
    return {c.name: c for c in gate(test or fair_test(), rows, column or column_of(), margin, declared)}


def unmet(*rows, **changes):
    """The conditions that are not met, with their figures."""
    return {name: c.why.replace("\u2212", "-") for name, c in judged(*rows, **changes).items() if not c.met}


def test_a_fair_test_meets_all():
    conditions = judged()
    assert list(conditions) == ["declared", "column", "room", "settled", "competent", "tuned"]
    assert unmet() == {}


def test_declared_is_passed_on():
    late = Condition("declared", False, "2026-01-05, after its first run began, 2026-01-02")
    assert unmet(declared=late) == {"declared": late.why}


# --- column -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "unit", "other", "why"),
    [
        (column_of("bits per byte"), "perplexity", "", None),
        (column_of("BLEU"), "perplexity", "", "perplexity is not what ppl measures (BLEU)"),
        (column_of("BLEU"), "perplexity", "small models translate too badly", None),
        (column_of("accuracy"), "percent", "", None),
        (column_of(attention="trained"), "perplexity", "", None),
        (
            column_of(attention="longer"),
            "perplexity",
            "",
            "long: attention beside that of training: trained, of ppl: longer; "
            "short: attention beside that of training: trained, of ppl: longer",
        ),
        (column_of(overlap=False), "perplexity", "", None),
        (
            column_of(overlap=True),
            "perplexity",
            "any words",
            "long: overlapping windows: no, of ppl: yes; short: overlapping windows: no, of ppl: yes",
        ),
    ],
)
def test_the_measurement_has_the_protocol_of_the_cited_column(column, unit, other, why):
    rows = [row("long", 50.0, unit=unit), row("short", 60.0, unit=unit)]
    result = unmet(*rows, column=column, test=fair_test(other_quantity=other), margin=ABSOLUTE)
    assert result.get("column") == why


@pytest.mark.parametrize(
    ("protocol", "why"),
    [
        ({"seq_len": 32, "mem_len": 16}, None),
        ({"seq_len": 48}, None),
        ({"seq_len": 64, "mem_len": 16}, "attention beside that of training: longer, of ppl: trained"),
        ({"seq_len": 32}, "attention beside that of training: shorter, of ppl: trained"),
        ({}, None),
    ],
)
def test_attention_is_compared_with_that_of_training(protocol, why):
    rows = [row("long", 50.0, protocol=protocol or {"beam": 4}), row("short", 60.0)]
    result = unmet(*rows, column=column_of(attention="trained"))
    assert result == ({"column": f"long: {why}"} if why else {})


# --- room -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (100.0, 50.0, None),  # one row at a bound makes a difference smaller, never larger
        (99.2, 100.0, "long and short at the ceiling of 100"),
        (98.0, 100.0, None),
        (80.0, 10.5, None),
        (10.9, 10.0, "long and short at the floor of 10"),
        (9.0, 2.0, "long and short at the floor of 10"),  # below copying and guessing
    ],
)
def test_no_two_compared_rows_lie_at_one_bound(first, second, why):
    rows = [row("long", first, unit="percent"), row("short", second, unit="percent")]
    test = fair_test(floor=10.0, better="higher", competent=LEVEL | {"level": 1.0})
    result = unmet(*rows, test=test, margin=ABSOLUTE, column=column_of("percent", "higher"))
    assert result.get("room") == why


def test_the_ceiling_of_another_quantity_is_declared():
    rows = row("long", 100.0), row("short", 100.5)
    assert "room" not in unmet(*rows)
    assert unmet(*rows, test=fair_test(ceiling=100.0))["room"] == "long and short at the ceiling of 100"


@pytest.mark.parametrize(
    ("unit", "means", "why"),
    [
        ("perplexity", (1.0, 1.004), "long and short at the floor of 1"),
        ("nats", (0.001, 0.009), "long and short at the floor of 0"),
        ("BLEU", (99.6, 99.7), "long and short at the ceiling of 100"),
        ("BLEU", (99.6, 98.0), None),
        ("error rate (%)", (0.0, 0.4), "long and short at the floor of 0"),
        ("pictures per second", (0.001, 0.002), None),
    ],
)
def test_a_likelihood_has_a_floor_and_bleu_a_ceiling(unit, means, why):
    rows = [row(name, mean, unit=unit) for name, mean in zip(("long", "short"), means, strict=True)]
    margin = default_margin(unit) or ABSOLUTE
    assert unmet(*rows, margin=margin, column=column_of(unit)).get("room") == why


# --- settled ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "within", "why"),
    [
        (0.0, None, None),
        (4.9, None, None),
        (5.0, None, "long: val/ppl moves by -5.000 in the last quarter; allowed 5.000"),
        (-5.1, None, "long: val/ppl moves by +5.100 in the last quarter; allowed 5.000"),
        (1.1, 1.0, "long: val/ppl moves by -1.100 in the last quarter; allowed 1.000"),
        (
            8.0,
            9.0,
            "long: val/ppl moves by -8.000 in the last quarter; allowed 5.000",
        ),  # no number loosens it
    ],
)
def test_no_row_moves_by_half_of_the_gap(by, within, why):
    rows = row("long", 50.0, falling(by, 50.0)), row("short", 60.0)
    result = unmet(*rows, test=fair_test(settled={"within": within} if within else {}))
    assert result == ({"settled": why} if why else {})


def test_of_a_tie_no_row_moves_by_half_of_the_margin():
    moving = row("long", 50.0, falling(0.5, 50.0)), row("short", 50.1)
    assert "allowed 0.2500" in unmet(*moving)["settled"]
    assert unmet(*moving, margin=Margin(3.0, "percent")) == {}


def test_in_an_order_of_three_the_smaller_gap_counts():
    rows = row("long", 50.0), row("middle", 52.0, falling(1.5, 52.0)), row("short", 60.0)
    stated = {"rows": {name: f"toy/{name}" for name in ("long", "middle", "short")}}
    assert "middle: val/ppl moves by -1.500" in unmet(*rows, test=fair_test(**stated))["settled"]


def test_the_mean_over_seeds_moves():
    up, down = falling(-8.0, 50.0), falling(8.0, 50.0)
    made = [record("long", seed, 50.0, curve) for seed, curve in ((1, up), (2, down), (3, flat(50.0)))]
    mixed = GateRow("long", [(one, one.metrics[0]) for one in made], BEGAN, row("long", 50.0).tuning)
    assert unmet(mixed, row("short", 60.0)) == {}


@pytest.mark.parametrize(
    "curve",
    [
        [],
        flat(50.0)[:17],  # ends at 85 %
        [[100, 50.0]],
        [[80, 50.0], [90, 50.0], [100, 50.0]],
        [*flat(50.0)[:16], [90, None], [100, None]],  # it diverged
        [*flat(50.0)[:16], [85, None], [90, 50.0], [100, None]],
    ],
)
def test_a_curve_that_does_not_cover_the_last_quarter_shows_nothing(curve):
    why = unmet(row("long", 50.0, curve), row("short", 60.0))["settled"]
    assert why == "long: val/ppl does not cover the last quarter"


def test_a_curve_of_another_metric_has_a_bound_of_its_own():
    rows = row("long", 50.0), row("short", 60.0)
    for one, _ in rows[0].measured:
        one.curves["val/accuracy"] = [[step, step / 10] for step in range(5, STEPS + 1, 5)]
    for one, _ in rows[1].measured:
        one.curves["val/accuracy"] = flat(1.0)
    for other in (*rows[0].tuning, *rows[1].tuning):
        other.curves["val/accuracy"] = [[step, -value] for step, value in other.curves["val/ppl"]]
    settled = {"curve": "val/accuracy", "within": 2.0}
    why = "long: val/accuracy moves by +2.500 in the last quarter; allowed 2.000"
    assert unmet(*rows, test=fair_test(settled=settled)) == {"settled": why}
    assert unmet(*rows, test=fair_test(settled=settled | {"within": 30.0})) == {}


@pytest.mark.parametrize(
    ("points", "moves"),
    [
        ([[50, 4.0], [100, 2.0]], -1.0),  # half of the last half
        ([[75, 3.0], [100, 2.0]], -1.0),
        ([[70, 3.0], [80, 3.0], [90, 2.0], [100, 2.0]], -1.0),
        ([[25, 9.0], [50, 5.0], [75, 3.0], [87.5, 2.5], [100, 2.0]], -1.0),
        ([[60, 3.0], [70, None], [80, 3.0], [100, 2.0]], -0.625),
    ],
)
def test_the_movement_is_that_of_a_line_through_the_quarter_and_the_point_before(points, moves):
    assert movement(points, STEPS) == pytest.approx(moves, abs=0.01)


# --- competent --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "met", "why"),
    [
        (LEVEL, True, "short has 60.00; Kneser-Ney 5-gram: 100"),
        (LEVEL | {"level": 59.9}, False, "short has 60.00; Kneser-Ney 5-gram: 59.9"),
        (LEVEL | {"row": "long", "level": 50.5}, True, "long has 50.00; Kneser-Ney 5-gram: 50.5"),
        (LEVEL | {"measured": "val/accuracy"}, False, "short has no val/accuracy"),
        (None, False, "no level is declared"),
    ],
)
def test_the_reference_reaches_what_a_simple_method_does(level, met, why):
    result = judged(test=fair_test(competent=level))["competent"]
    assert (result.met, result.why) == (met, why)


def test_the_level_may_be_of_another_measurement():
    rows = row("long", 50.0), row("short", 60.0)
    for one, _ in rows[1].measured:
        one.metrics.append(Measurement("test/accuracy", 40.0, "percent", "test"))
    for level, met in ((39.0, True), (41.0, False)):
        test = fair_test(competent=LEVEL | {"measured": "test/accuracy", "level": level})
        assert judged(*rows, test=test)["competent"].met == met


# --- tuned ------------------------------------------------------------------------------------------------


def test_each_row_has_the_best_of_the_same_values():
    best_elsewhere = row("long", 50.0, tuning={0.1: 40.0, 0.2: 50.0, 0.3: 60.0})
    assert unmet(best_elsewhere, row("short", 60.0)) == {"tuned": "long: model.lr is 0.2, the best was 0.1"}
    assert judged()["tuned"].why == "model.lr from 0.1, 0.2, 0.3 for each row"


@pytest.mark.parametrize("lr", [0.2, 0.3])
def test_each_of_the_best_values_that_tie_will_do(lr):
    tied = row("long", 50.0, lr=lr, tuning={0.1: 60.0, 0.2: 50.0, 0.3: 50.0})
    assert judged(tied, row("short", 60.0))["tuned"].met


def test_a_value_whose_run_diverged_is_the_worst():
    made = row("long", 50.0, tuning={0.1: 40.0, 0.2: 50.0, 0.3: 60.0})
    for record in made.tuning:
        if record.config["model"]["init_args"]["lr"] == 0.1:
            record.curves["val/ppl"].append([record.steps, None])
    assert "tuned" not in unmet(made, row("short", 60.0))


def test_rows_at_an_end_of_the_sweep_are_named():
    at_end = row("long", 50.0, lr=0.3, tuning={0.1: 60.0, 0.2: 60.0, 0.3: 50.0})
    tuned = judged(at_end, row("short", 60.0))["tuned"]
    assert tuned.met
    assert tuned.why.endswith("for each row; the best is the smallest or largest that was tried: long")


def test_every_value_was_tried_for_every_row():
    lacking = row("short", 60.0, tuning={0.1: 65.0, 0.2: 60.0})
    assert unmet(row("long", 50.0), lacking) == {"tuned": "short: no tuning run with model.lr 0.3"}


@pytest.mark.parametrize("changes", [{"batch_tokens": 9}, {"seq_len": 16}])
def test_tuning_runs_differ_from_the_judged_ones_in_nothing_else(changes):
    crippled = row("long", 50.0, tuning={0.2: 50.0})
    others = [record("long", 100, 90.0, lr=lr, **changes) for lr in (0.1, 0.3)]
    result = unmet(GateRow("long", crippled.measured, BEGAN, [*crippled.tuning, *others]), row("short", 60.0))
    assert result == {"tuned": "long: no tuning run with model.lr 0.1, 0.3"}


def test_only_the_seeds_of_the_sweep_count():
    second = {0.1: 10.0, 0.2: 50.0, 0.3: 60.0}
    rows = [row("long", 50.0), row("short", 60.0)]
    rows = [
        replace(r, tuning=[*r.tuning, *(record(r.name, 101, v, lr=lr) for lr, v in second.items())])
        for r in rows
    ]
    assert unmet(*rows) == {}
    both = fair_test(tuned=SWEEP | {"seeds": "100-101"})
    assert "long: model.lr is 0.2, the best was 0.1" in unmet(*rows, test=both)["tuned"]
    lacking = replace(rows[0], tuning=rows[0].tuning[:-1])
    assert "long: no tuning run with model.lr 0.3" in unmet(lacking, rows[1], test=both)["tuned"]


@pytest.mark.parametrize("wrong", [{"dirty": True}, {"dirty": None}, {"finished": "2026-01-02T00:00:01Z"}])
def test_tuning_runs_are_clean_and_end_before_the_first_judged_one_begins(wrong):
    made = row("long", 50.0)
    tuning = [
        replace(one, **wrong) if one.config["model"]["init_args"]["lr"] == 0.3 else one for one in made.tuning
    ]
    result = unmet(replace(made, tuning=tuning), row("short", 60.0))
    assert result == {"tuned": "long: no tuning run with model.lr 0.3"}


def test_tuning_runs_end_before_a_try_of_the_judged_runs_that_left_no_record():
    made = replace(row("long", 50.0), began=datetime(2025, 12, 31, tzinfo=UTC))
    assert "long: no tuning run with model.lr 0.1" in unmet(made, row("short", 60.0))["tuned"]


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_the_best_of_a_sweep_is_in_the_direction_of_the_test(better):
    """The name of a metric of one's own says nothing of its direction."""
    sign = 1 if better == "lower" else -1
    rows = []
    for name, value in (("long", 50.0), ("short", 50.0 + 10 * sign)):
        scores = {0.1: value + 5 * sign, 0.2: value, 0.3: value + 9 * sign}
        made = row(name, value, tuning=scores)
        own = [replace(one, curves={"val/wer": one.curves["val/ppl"]}) for one in made.tuning]
        judged = [(replace(r, curves={"val/wer": r.curves["val/ppl"]}), m) for r, m in made.measured]
        rows.append(replace(made, measured=judged, tuning=own))
    test = fair_test(measured="test/wer", better=better, competent=LEVEL | {"level": 50.0 + 10 * sign})
    assert "tuned" not in unmet(*rows, test=test)


def test_the_first_tuning_run_of_a_value_and_seed_counts():
    made = row("long", 50.0)
    again = replace(record("long", 100, 10.0, lr=0.1), finished="2026-01-01T09:00:00Z")
    assert unmet(replace(made, tuning=[again, *made.tuning]), row("short", 60.0)) == {}


def test_a_value_that_was_not_swept_is_not_the_best():
    result = unmet(row("long", 50.0, lr=0.25), row("short", 60.0))
    assert result == {"tuned": "long: model.lr is 0.25, the best was 0.2"}


@pytest.mark.parametrize(
    ("tuned", "scale", "why"),
    [
        (None, "small", "no sweep is declared"),
        ("paper", "small", "settings of the paper at scale small"),
        ("paper", "paper", None),
    ],
)
def test_settings_of_the_paper_are_tuned_at_its_scale_only(tuned, scale, why):
    assert unmet(test=fair_test(tuned=tuned, scale=scale)) == ({"tuned": why} if why else {})


def test_where_nothing_is_trained_nothing_has_to_settle():
    test = fair_test(tuned="nothing", competent=None)
    rows = row("long", 50.0, []), row("short", 60.0, [])
    assert unmet(*rows, test=test) == {"tuned": "tuned: nothing, but 100 updates were made"}
    for one in rows:
        for record, _ in one.measured:
            record.steps = 1
    assert list(judged(*rows, test=test)) == ["declared", "column", "room"]


# --- how often ----------------------------------------------------------------------------------------------
#
# The gap of neighbouring rows is 1. A row's curve is an exponential approach, c + a exp(-t / T), where training lasts
# from 0 to 1. A seed is shifted by a normal deviation; each validation point, and the test score, is off by another.
# Both have the standard deviation `noise`. So a fifth of the gap is much: with three seeds such an order is shown in
# 95 % of draws only. Validations are evenly spaced, so many of them in the last quarter.

DRAWS = 1000
NOISE = 0.2
SLOW, MIDDLE, FAST = 3.0, 0.5, 0.2  # of the time constants


def at_least(share):
    """A share that a true rate of at least this falls below in one simulation of a thousand."""
    return share - 3.1 * math.sqrt(share * (1 - share) / DRAWS)


def share_of_passes(n, in_quarter, rows, noise=NOISE, draws=DRAWS):
    """Returns the share of rows with these last movements and time constants that pass as settled."""
    random = np.random.default_rng(20261126)
    steps = next(p for p in range(4, 200) if sum(4 * k >= 3 * p for k in range(1, p + 1)) == in_quarter)
    times = np.arange(1, steps + 1) / steps
    names = [f"r{i}" for i in range(len(rows))]
    test = fair_test(rows={name: f"toy/{name}" for name in names}, competent=None, tuned="paper")
    shapes = []
    for i, (moves, constant) in enumerate(rows):
        height = moves / (math.exp(-0.75 / constant) - math.exp(-1 / constant))
        shapes.append(i + height * (np.exp(-times / constant) - math.exp(-1 / constant)))
    column, passed = column_of(), 0
    for _ in range(draws):
        made = []
        for i, (name, shape) in enumerate(zip(names, shapes, strict=True)):
            measured = []
            for shift in random.normal(0, noise, n):
                curve = shape + shift + random.normal(0, noise, steps)
                points = list(zip(range(1, steps + 1), curve.tolist(), strict=True))
                one = SimpleNamespace(curves={"val/ppl": points}, steps=steps, config={})
                score = i + shift + random.normal(0, noise)
                measured.append((one, SimpleNamespace(value=score, unit="perplexity", protocol={})))
            made.append(GateRow(name, measured, BEGAN))
        passed += {c.name: c.met for c in gate(test, made, column, None, DECLARED)}["settled"]
    return passed / draws


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("in_quarter", [4, 5, 8, 20])
class TestSettled:
    @pytest.mark.parametrize(
        "rows",
        [
            [(1.0, MIDDLE), (1.0, MIDDLE)],
            [(1.0, SLOW), (0.05, 0.12)],
            [(0.05, 0.12), (1.0, FAST), (0.05, 0.12)],
        ],
    )
    def test_rows_that_only_need_more_training_are_refused(self, n, in_quarter, rows):
        assert share_of_passes(n, in_quarter, rows) <= 1 - at_least(0.95)

    @pytest.mark.parametrize("count", [2, 3])
    def test_settled_rows_pass(self, n, in_quarter, count):
        assert share_of_passes(n, in_quarter, [(0.05, 0.12)] * count) >= at_least(0.95)


def test_a_sweep_may_be_shorter_than_the_judged_runs_if_it_says_so():
    rows = row("long", 50.0), row("short", 60.0)
    for other in (*rows[0].tuning, *rows[1].tuning):
        other.steps = STEPS // 2
        other.config = other.config | {"trainer": {"max_steps": STEPS // 2}}
    assert "no tuning run" in unmet(*rows)["tuned"]
    assert unmet(*rows, test=fair_test(tuned=SWEEP | {"updates": STEPS // 2})) == {}
