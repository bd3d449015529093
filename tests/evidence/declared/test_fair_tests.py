"""The files of declared tests: their schema, what they say of a paper, and what a declaration fixes."""

import re
from types import SimpleNamespace

import pytest
import yaml

from repro.errors import UserError
from repro.evidence.declared.fair_tests import BUDGET, FairTest, Tests, check, digest, load_tests
from repro.evidence.judging.margins import parse_margin
from repro.evidence.published import Paper, load_paper, load_papers
from repro.paths import PROJECT
from repro.recipe import load_recipe
from tests.evidence.tested_rows import ORDER, recipes
from tests.report.fakes import PUBLISHED, TEST, TESTS


def toy():
    return load_tests(load_paper("toy"))


def test_every_file_of_the_checkout_is_valid_and_accounts_for_every_claim():
    for paper in load_papers():
        tests = load_tests(paper)
        assert {test.claim for test in tests.tests} | tests.untested.keys() == paper.claims.keys()


def test_a_file_with_its_defaults(house):
    (test,) = toy().tests
    assert (test.name, test.scale, test.seeds, test.declared) == (
        "bigger-is-better/1",
        "small",
        (1, 2, 3),
        None,
    )
    assert {row: run.run for row, run in test.rows.items()} == {"big": "toy/big", "base": "toy/base"}
    assert (test.settled_curve, test.measured_of("big"), test.seeds_of("big")) == (
        "val/bleu",
        "test/bleu",
        (1, 2, 3),
    )
    assert toy().picture == "bigger-is-better/1"


def test_a_paper_without_a_file_has_no_tests(house):
    house.publish(PUBLISHED.replace("key: toy", "key: other"), "other")
    assert load_tests(load_paper("other")).tests == ()


def test_a_row_may_have_seeds_and_a_measurement_of_its_own(house):
    text = TEST.replace("base: toy/base", "base: {run: toy/base, seeds: 7-9, measured: test/other}")
    house.test(
        TESTS.replace(TEST, text.replace("measured: test/bleu", "measured: test/bleu\n    extended_to: 1-5"))
    )
    (test,) = toy().tests
    assert (test.seeds_of("big"), test.seeds_of("base")) == ((1, 2, 3, 4, 5), (7, 8, 9))
    assert (test.measured_of("big"), test.measured_of("base")) == ("test/bleu", "test/other")


SWEPT = "tuned: {key: model.lr, values: [1, 2, 3]%s}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("paper: toy", "paper: tay", "paper is 'tay'"),
        ("claim: bigger-is-better", "claim: bigger-is-beter", "no claim 'bigger-is-beter'; nearest: bigger"),
        ("{big: toy/big, base", "{bog: toy/big, base", "the claim has no row 'bog'; nearest: big"),
        (
            "{big: toy/big, base: toy/base}",
            "{base: toy/base, big: toy/big}",
            "must stand in the order of the claim",
        ),
        ("{big: toy/big, base: toy/base}", "{big: toy/big}", "rows"),
        ("measured: test/bleu", "measured: test/bleu\n    column: blue", "no column 'blue'; nearest: bleu"),
        ("measured: test/bleu", "measure: test/bleu", "measured: is missing; nearest: measure"),
        ("scale: small", "scale: tiny", "scale"),
        ("attempt: 1", "attempt: 2\n    changed: words", "attempts are numbered 1, 2, ...; this one is 1"),
        ("attempt: 1", "attempt: 1\n    changed: words", "`changed` goes with attempts after the first"),
        ("tuned: nothing", "tuned: {key: model.lr, values: [1, 2]}", "toy.yaml: tests.0.tuned.values: "),
        ("tuned: nothing", SWEPT % ", seeds: 1-3", "seeds of a sweep start at 100"),
        ("tuned: nothing", "tuned: {key: model.lr, values: [1, 2, 2]}", "values of a sweep differ"),
        ("tuned: nothing", "seeds: 3-1", "toy.yaml: tests.0.seeds: seeds '3-1'"),
        ("tuned: nothing", "competent: {row: big, level: .nan, method: words}", "competent.level"),
        ("tuned: nothing", "seeds: 1-100", "seeds from 100 on are for tuning"),
        ("tuned: nothing", "extended_to: 1-3", "extended_to must hold the seeds"),
        ("tuned: nothing", "settled: {curve: val/ppl}", "val/ppl shows another metric; add `within: ...`"),
        ("tuned: nothing", "competent: {row: tiny, level: 3, method: words}", "no row 'tiny'"),
        ("tuned: nothing", "declared: soon", "declared"),
        ("tuned: nothing", "declared: '2999-01-01'", "declared 2999-01-01 lies in the future"),
        ("toy/base}", "{run: toy/base, config: zz}}", "config"),
        ("picture: bigger-is-better/1", "picture: bigger-is-better/2", "no test 'bigger-is-better/2'"),
        (
            "  base-ties-small: {gpu_hours: 8}\n",
            "",
            "claim base-ties-small has no test; give the reason below `untested`",
        ),
        ("untested:\n", "untested:\n  bigger-is-better: {why: x}\n", "has a test and is called untested"),
        ("untested:\n", "untested:\n  nothing: {why: x}\n", "no claim 'nothing'"),
        ("base-ties-small: {gpu_hours: 8}", "base-ties-small: {}", "state what a test needs"),
        ("schema_version: 1", "schema_version: 1\nextra: 1", "extra"),
    ],
)
def test_a_file_that_contradicts_the_paper_or_itself_is_refused(house, old, new, message):
    assert TESTS.count(old) == 1, old
    house.test(TESTS.replace(old, new))
    with pytest.raises(UserError) as error:
        toy()
    assert message in str(error.value)
    assert "toy.yaml" in str(error.value)


def test_rows_with_seeds_of_their_own_are_not_extended(house):
    own = TEST.replace("toy/big,", "{run: toy/big, seeds: 4-6},").replace(
        "toy/base}", "{run: toy/base, seeds: 4-6}}"
    )
    house.test(TESTS.replace(TEST, own.replace("tuned:", "extended_to: 1-9\n    tuned:")))
    with pytest.raises(UserError, match="extended_to extends no row"):
        toy()


@pytest.mark.parametrize("curve", ["", "{curve: val/bleu_sw512}"])
def test_a_variant_of_the_measurement_is_no_other_metric(house, curve):
    house.test(TESTS.replace("tuned: nothing", f"settled: {curve or '{}'}"))
    assert toy().tests[0].curve_is_own


# --- what is not tested -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "out", "words"),
    [
        ("core_hours: 19.9", False, "19.9 core-hours a row"),
        ("core_hours: 20.1", True, "20.1 core-hours a row"),
        ("gpu_hours: 400", False, "400 GPU hours a row"),
        (
            "gpu_hours: 4, core_hours: 90, why: it is large",
            True,
            "90 core-hours a row; 4 GPU hours a row; it is large",
        ),
        ("missing: One Billion Word, core_hours: 2", True, "needs One Billion Word; 2 core-hours a row"),
        ("why: nobody looked", False, "nobody looked"),
    ],
)
def test_out_of_reach_needs_a_price_above_the_budget_or_something_that_is_missing(house, needs, out, words):
    house.test(TESTS.replace("{gpu_hours: 8}", f"{{{needs}}}"))
    reason = toy().untested["base-ties-small"]
    assert (reason.out_of_reach, str(reason)) == (out, words)
    assert BUDGET == 20


# --- what a declaration fixes -------------------------------------------------------------------------------


def parsed(text):
    return FairTest.model_validate(yaml.safe_load(text)[0])


def today(experiment, scale, digits):
    return load_recipe(experiment, scale).signature


@pytest.fixture
def fixed(house):
    """The digest of a text, with today's recipes."""
    recipes(house, "big", "base", "small")

    def of(text=TEST, config_of=today, given=None, **claim):
        paper = load_paper("toy")
        column = paper.tables["table1"].metrics["bleu"].model_copy(update=given)
        stated = paper.claims["bigger-is-better"].model_copy(update=claim)
        return digest(parsed(text), stated, column, config_of)

    return of


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("says: Big", "says: The big"),
        ("scale: small", "check: words\n    scale: small"),
        ("measured: test/bleu", "measured: test/ppl"),
        ("measured: test/bleu", "measured: test/bleu\n    column: ppl"),
        ("measured: test/bleu", "measured: test/bleu\n    margin: {size: 2, set: '2026-01-01', reason: x}"),
        ("measured: test/bleu", "measured: test/bleu\n    varies: [budget]"),
        ("measured: test/bleu", "measured: test/bleu\n    seeds: 1-4"),
        ("measured: test/bleu", "measured: test/bleu\n    settled: {within: 2}"),
        ("tuned: nothing", "tuned: paper"),
        ("base: toy/base", "small: toy/base"),
        ("base: toy/base", "base: toy/small"),
    ],
)
def test_a_changed_text_has_another_digest(fixed, old, new):
    assert fixed(TEST.replace(old, new)) != fixed()


def test_what_is_claimed_of_the_rows_is_fixed_too(fixed):
    assert fixed(not_worse=True) != fixed()
    assert fixed(metric="ppl") != fixed()
    swapped = ORDER.replace("{big: toy/big, base: toy/base,", "{base: toy/base, big: toy/big,")
    assert fixed(swapped) != fixed(ORDER)


def test_a_margin_of_the_column_is_fixed_where_it_is_not_the_default_of_its_unit(fixed):
    def with_margin(size):
        return {
            "rules": SimpleNamespace(margin=parse_margin({"size": size, "set": "2025-01-01", "reason": "x"}))
        }

    assert fixed(given=with_margin(0.5)) == fixed()
    assert fixed(given=with_margin(9.0)) != fixed()


def test_labels_an_extension_and_the_writing_of_a_file_change_nothing(fixed):
    assert fixed(TEST.replace("base: toy/base", "base: {run: toy/base, label: Smaller}")) == fixed()
    assert fixed(TEST.replace("core_hours: 0.5", "core_hours: 0.5\n    extended_to: 1-5")) == fixed()
    assert fixed(TEST.replace("core_hours: 0.5", "core_hours: 0.50\n    seeds: [1, 2, 3]")) == fixed()


def test_a_recipe_that_changes_has_another_digest_unless_its_sweep_chose_the_change(fixed, house):
    swept = TEST.replace("tuned: nothing", SWEPT.replace("lr", "width") % "")
    before, before_swept = fixed(), fixed(swept)
    house.recipe("big", scale="small", width=3)
    assert (fixed() == before, fixed(swept) == before_swept) == (False, True)
    house.write("big", "set: {trainer.max_steps: 7}\n", "small")
    assert fixed(swept) != before_swept


def test_pinning_the_configuration_changes_nothing(fixed, house):
    before = fixed()
    recipe = load_recipe("toy/big", "small")
    pinned = TEST.replace("big: toy/big", f"big: {{run: toy/big, config: {recipe.hash8}}}")

    def config_of(experiment, scale, digits):
        return recipe.signature if digits == recipe.hash8 else today(experiment, scale, digits)

    house.recipe("big", scale="small", width=9)
    assert fixed(pinned, config_of) == before
    assert fixed() != before


def test_tests_are_declared_by_their_date_alone(house):
    assert toy().tests[0].declared is None
    house.test(TESTS.replace("attempt: 1", "attempt: 1\n    declared: 2026-01-01"))
    assert toy().tests[0].declared == "2026-01-01"


def test_the_example_of_the_documents_is_valid():
    text = (PROJECT / "docs" / "extending.md").read_text(encoding="utf-8")
    blocks = [
        yaml.safe_load(block) for block in re.findall(r"```yaml\n(schema_version.*?)```", text, re.DOTALL)
    ]
    published, tests = blocks
    check(Tests.model_validate(tests), Paper.model_validate(published))
