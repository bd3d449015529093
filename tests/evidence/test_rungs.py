"""How far a paper is proven, in one line."""

from types import SimpleNamespace

from repro.evidence.compare import compare
from repro.evidence.declared.outcomes import outcomes
from repro.evidence.official import CodeComparison, Size
from repro.evidence.rungs import rungs, summarised
from tests.evidence.tested_rows import around, run_rows
from tests.report.fakes import TEST, UNTESTED


def met(paper="toy", updates=0, **differences):
    return CodeComparison(paper, "x.npz", "0" * 64, "some/code@0123456", updates, differences, [], [])


def size(agrees, explanation=None, paper="toy"):
    return Size(paper, "toy/big", "table1", "big", 2000, 2001, 1, agrees, explanation)


def line(found=(), sizes=()):
    comparison = compare("toy")
    (paper,) = comparison.papers
    return rungs(comparison, paper, found, sizes, outcomes(comparison, paper)[1])


def test_a_paper_with_nothing(house):
    bare = line()
    assert (bare.paper, bare.cases, bare.function, bare.runs, bare.losses, bare.sizes) == (
        "toy",
        0,
        None,
        0,
        None,
        0,
    )
    assert (bare.tests, bare.checks, bare.counted, bare.numbers, bare.gpu_hours) == (
        {"planned": 1},
        (0, 0),
        5,
        {},
        0,
    )


def test_same_function_training_and_size_are_those_of_the_paper(house):
    mine = [met(outputs=1e-9, gradients=1e-3), met(outputs=1e-7), met(updates=8, losses=1e-8, weights=1e-6)]
    others = [met("other", outputs=1.0), met("other", updates=3, losses=1.0)]
    one = line(
        [*mine, *others],
        [size(True), size(False, "the table is shared"), size(False), size(True, paper="other")],
    )
    assert (one.cases, one.function) == (2, 1e-3)
    assert (one.runs, one.updates, one.losses, one.weights) == (1, 8, 1e-8, 1e-6)
    assert (one.sizes, one.equal, one.explained) == (3, 1, 1)


def test_tests_are_counted_by_verdict_and_checks_apart(house):
    run_rows(house, text=TEST, big=around(30), base=around(28))
    assert (line().tests, line().checks) == ({"same order": 1}, (0, 0))
    check = TEST.replace("scale:", "check: the task decides\n    scale:")
    check = check.replace("attempt: 1", "attempt: 2\n    changed: x")
    house.test(f"schema_version: 1\npaper: toy\ntests:{TEST}{check}{UNTESTED}")
    assert (line().tests, line().checks) == ({"not a fair test": 1}, (1, 1)), "the ledger has another text"


def attempt(claim, verdict, check=False):
    return SimpleNamespace(
        test=SimpleNamespace(claim=claim), verdict=verdict, is_check=check, counts=verdict.endswith("order")
    )


def test_every_fair_attempt_at_a_claim_is_counted_else_the_last():
    first, second, third = (
        attempt("a", verdict) for verdict in ("other order", "not a fair test", "planned")
    )
    other, check = attempt("b", "planned"), attempt("c", "same order", check=True)
    assert summarised([first, second, third, other, check]) == [first, other]
    assert summarised([second, third]) == [third]
    better = attempt("a", "same order")
    assert summarised([first, better, third]) == [first, better], "a later fair test replaces none"
    waiting = attempt("a", "not run")
    assert summarised([first, waiting]) == [first, waiting], "what a fair test leaves open is listed"


def test_numbers_are_counted_by_verdict_with_the_price_of_the_rest(house):
    for row in ("big", "base"):
        house.recipe(row)
        house.write(row, "{hours: 4, devices: 2, hardware: x}", "paper")
    assert (line().numbers, line().gpu_hours) == ({}, 4 * 2 * 3 * 2)
    house.run("toy/big", around(30))
    assert (line().numbers, line().gpu_hours) == ({"reproduced": 1}, 4 * 2 * 3)
    house.write("base", "{}", "paper")
    assert line().gpu_hours is None, "a recipe that states no hours has no price"
