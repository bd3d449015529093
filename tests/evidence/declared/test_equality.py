"""Equality tests of arithmetic: what is declared, which runs are compared, and the verdicts."""

import dataclasses

import pytest

from repro import recipe
from repro.errors import UserError
from repro.evidence.compare import compare
from repro.evidence.declared.equality import _verdict, digest, equalities
from repro.evidence.declared.fair_tests import load_tests
from repro.evidence.judging.statistics import satterthwaite
from repro.evidence.table import read_evidence, table
from repro.ledger import HEADER, Line
from repro.record import LEDGER, Measurement, write_record
from repro.report.formats.blocks import Grid
from repro.report.views.tests import document_of_tests
from tests.report.fakes import HEAD, TEST, UNTESTED, make_record

DECLARED = "declared: '2026-01-01'"
PAIR = """
arithmetic:
  - {run: toy/big, scale: small, measured: test/bleu, seeds: 51-53, core_hours: 0.2, %s}
"""


@pytest.fixture
def pair(house):
    house.recipe("big")
    house.recipe("base")
    house.recipe("big", scale="small", width=2)
    house.recipe("base", scale="small", width=2)
    house.test(f"{HEAD}tests:{TEST}{PAIR % DECLARED}{UNTESTED}")
    return house


def declare(house, at="2026-01-01T12:00:00Z"):
    (test,) = load_tests(compare("toy").papers[0]).arithmetic
    path = house.results / "runs" / LEDGER
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEADER}\n{Line(at, 'declared', f'tests/toy/{test.name}', digest(test))}\n")


def runs(house, values, precision=None, first=51, **changes):
    """Records of seeds from the first one on of the recipe or of its runs in another precision."""
    given = [] if precision is None else [("trainer.precision", precision)]
    made = recipe.load_recipe("toy/big", "small", given)
    for number, value in enumerate(values):
        record = make_record("toy/big", 1, value, "small")
        own = {"config": made.config, "config_hash": made.config_hash, "overrides": list(made.overrides)}
        own |= {"seed": first + number, "run_id": made.run_id(first + number)}
        own["metrics"] = [Measurement("test/bleu", value, "BLEU", "test", {}, 50)]
        write_record(dataclasses.replace(record, **own | changes), house.results / "runs")


def outcome():
    recipe.forget_files()
    comparison = compare("toy")
    (one,) = equalities(comparison, "toy", load_tests(comparison.papers[0]).arithmetic)
    return one


def test_planned_not_run_and_incomplete(pair):
    assert outcome().verdict == "not run"
    runs(pair, [30.0, 30.1, 30.2])
    assert (outcome().verdict, outcome().why) == ("incomplete", "0 of 3 seeds")
    pair.test(f"{HEAD}tests:{TEST}{PAIR % 'cheaper: {matmul_precision: high}'}{UNTESTED}")
    assert outcome().test.declared is None


def test_seeds_for_tuning_are_refused(pair):
    pair.test(f"{HEAD}tests:{TEST}{(PAIR % DECLARED).replace('51-53', '101-103')}{UNTESTED}")
    with pytest.raises(UserError, match="seeds from 100 on are for tuning"):
        load_tests(compare("toy").papers[0])


def test_pairs_of_a_seed_are_compared(pair):
    declare(pair)
    runs(pair, [20.0, 30.0, 40.0])  # as far apart as seeds may be
    runs(pair, [20.03, 30.04, 40.05], "bf16-mixed")
    one = outcome()
    assert (one.verdict, one.why) == ("equal", "")
    assert one.difference.value == pytest.approx(0.04)
    assert one.own.estimate.mean == pytest.approx(30.0)


def test_a_tie_at_the_ceiling_shows_nothing(pair):
    declare(pair)
    runs(pair, [99.6, 99.7, 99.8])
    runs(pair, [99.7, 99.8, 99.9], "bf16-mixed")
    one = outcome()
    assert (one.verdict, one.why) == (
        "not a fair test",
        "the recipe and the cheaper run at the ceiling of 100",
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"data": {"manifest_sha256": "b" * 64}}, "data"),
        ({"versions": {"torch": "1.0"}}, "torch"),
        ({"hardware": {"device": "other", "count": 1, "nodes": 1, "threads": 1}}, "device"),
        ({"code_sha256": "c" * 64}, "code"),
        ({"steps": 7}, "updates"),
        ({"metrics": [Measurement("test/bleu", 30.0, "BLEU", "test", {"beam": 1}, 50)]}, "what is measured"),
    ],
)
def test_the_runs_of_a_seed_differ_in_nothing_but_arithmetic(pair, changes, what):
    declare(pair)
    runs(pair, [20.0, 30.0, 40.0])
    runs(pair, [20.0, 30.0, 40.0], "bf16-mixed", **changes)
    assert (outcome().verdict, outcome().why) == ("not a fair test", f"runs of one seed differ in {what}")


@pytest.mark.parametrize("cheaper", ["{}", "{compile: false}", "{matmul_precision: highest}"])
def test_the_recipes_own_arithmetic_is_not_a_cheaper_one(pair, cheaper):
    pair.test(f"{HEAD}tests:{TEST}{PAIR % f'cheaper: {cheaper}'}{UNTESTED}")
    with pytest.raises(UserError, match=r"is the recipe.s own arithmetic|at least 1 item"):
        outcome()


def test_overridden_runs_of_another_kind_do_not_count(pair):
    declare(pair)
    runs(pair, [20.0, 30.0, 40.0])
    runs(pair, [20.0, 30.0, 40.0], "16-mixed")
    assert outcome().verdict == "incomplete"


def test_settings_are_those_of_a_recipe_that_changed_later(pair):
    declare(pair)
    (before,) = load_tests(compare("toy").papers[0]).arithmetic
    fixed = digest(before)
    runs(pair, [30.0, 30.1, 30.2])
    runs(pair, [30.0, 30.1, 30.2], "bf16-mixed")
    pair.recipe("big", scale="small", width=3)
    assert outcome().verdict == "not run"
    pair.test(f"{HEAD}tests:{TEST}{PAIR % ('settings: {model.width: 2}, ' + DECLARED)}{UNTESTED}")
    one = outcome()
    assert (one.verdict, digest(one.test)) == ("equal", fixed)


def test_a_pair_must_be_declared_before_its_runs(pair):
    declare(pair, at="2026-02-01T12:00:00Z")
    runs(pair, [30.0, 30.1, 30.2])
    runs(pair, [30.0, 30.1, 30.2], "bf16-mixed", dirty=True)
    assert outcome().verdict == "not a fair test"
    assert outcome().why == "not declared before its first run; not all commits are clean"


def test_withdrawn_runs_began_too(pair):
    declare(pair)
    runs(pair, [20.0, 20.1, 20.2], finished="2026-01-01T06:00:00Z")
    for number, record in enumerate(sorted((pair.results / "runs" / "toy").rglob("*.json"))):
        path = record.relative_to(pair.results / "runs").as_posix()
        with (pair.results / "runs" / LEDGER).open("a") as file:
            file.write(f"{Line('2026-01-01T13:00:00Z', 'withdrawn', path, '0' * 64, f'fault {number}')}\n")
    runs(pair, [30.0, 30.1, 30.2])
    runs(pair, [30.0, 30.1, 30.2], "bf16-mixed")
    assert (outcome().verdict, outcome().why) == ("not a fair test", "not declared before its first run")


def test_its_seeds_are_not_those_that_the_recipe_judges(pair):
    pair.test(f"{HEAD}tests:{TEST}{PAIR.replace('51-53', '3-5') % DECLARED}{UNTESTED}")
    declare(pair)
    for precision in (None, "bf16-mixed"):
        runs(pair, [30.0, 30.1, 30.2], precision, first=3)
    assert (outcome().verdict, outcome().why) == ("not a fair test", "the recipe judges some of its seeds")


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (0.05, 0.0, "equal"),  # of a margin of 0.5
        (0.051, 0.0, "apart"),
        (0.04, 0.1, "equal"),
        (0.04, 1.0, "open"),  # within a tenth by chance
        (0.2, 0.1, "open"),
        (0.6, 0.1, "apart"),
    ],
)
def test_verdicts(value, error, verdict):
    assert _verdict(satterthwaite(value, [(error**2, 2)]), 0.5) == verdict


def test_the_outcome_is_in_the_evidence_and_in_the_document_of_tests(pair):
    declare(pair)
    runs(pair, [30.0, 30.1, 30.2])
    runs(pair, [30.01, 30.1, 30.2], "bf16-mixed")
    found = read_evidence("toy")
    (row,) = table(found)["arithmetic"]
    assert (row["run"], row["verdict"], row["margin"]) == ("toy/big", "equal", "0.5")
    assert row["low"] < row["difference"] < row["high"]
    (grid,) = [
        one
        for one in document_of_tests(found)
        if isinstance(one, Grid) and "Cheaper arithmetic" in one.header
    ]
    assert "toy/big, trainer.precision bf16-mixed" in grid.rows[0]
    assert "equal" in map(str, grid.rows[0])
    assert grid.rows[0][-1] == "repro run toy/big --scale small --seeds 51-53"


@pytest.mark.parametrize("entry", ["seeds: 51-52", "seeds: 51-53, cheaper: {model.width: 3}"])
def test_bad_declarations_are_refused(house, entry):
    text = PAIR.replace("seeds: 51-53", entry) % DECLARED
    house.test(f"{HEAD}tests:{TEST}{text}{UNTESTED}")
    with pytest.raises(UserError, match="arithmetic"):
        load_tests(compare("toy").papers[0])
