"""What the README and the first part of the page say: counted results, and a line for each other class of numbers."""

import pytest
from repro.evidence.claims import claims
from repro.report.formats.headline import asides, trained

from repro.evidence.compare import compare
from repro.report.formats import headline
from repro.report.render import render_overview
from tests.evidence.test_compare import GOAL
from tests.report.fakes import PUBLISHED

BLEU, SPEED = "bleu: {unit", "class: timed"
SMALL = "values: {bleu: 27.8}"
ODD_MARGIN = "margin: {size: 1, set: '2026-01-01', reason: rounding}"
# What is published otherwise, our row and metric, the group, what its line says of the number.
CASES = {
    "computed": (SPEED, f"class: computed, {ODD_MARGIN}", "base", "speed", headline.COMPUTED, "1 agrees"),
    "timed": (SPEED, SPEED, "base", "speed", headline.TIMED, "1 number"),
    "derived": (SPEED, "class: derived", "base", "speed", headline.DERIVED, "1 number"),
    "chance": (BLEU, "bleu: {chance: 27.5, unit", "small", "bleu", headline.CHANCE,
               "Small, bleu (toy, Table 1) 27.80 ± 0.25 beside 27.8, n = 3"),
    "short budget": (BLEU, "bleu: {updates: 101, unit", "small", "bleu", headline.SHORT,
                     "27.80 ± 0.25 beside 27.8, n = 3, short budget (100 of 101 updates)"),
    "again": (SMALL, f"same_as: table1/base, {SMALL}", "small", "bleu", headline.AGAIN, "1 reproduced"),
    "unconfirmed": (f"settings: {{}}, {SMALL}", f"settings: {{unconfirmed: true}}, {SMALL}", "small", "bleu",
                    headline.UNCONFIRMED, "27.80 ± 0.25 beside 27.8, n = 3, reproduced"),
    "configuration": (SMALL, f"configuration: ours, {SMALL}", "small", "bleu", headline.OURS,
                      "27.80 ± 0.25 beside 27.8, n = 3, reproduced"),
    "others": (SMALL, f"counted: false, {SMALL}", "small", "bleu", headline.OTHERS, "1 number"),
    "unprinted": (SMALL, "values: {}", "small", "bleu", headline.UNPRINTED, "1 number"),
}  # fmt: skip
VALUES = {"speed": [900.0] * 3, "bleu": [27.7, 27.8, 27.9]}


@pytest.mark.parametrize("case", CASES)
def test_a_number_that_is_no_result_has_its_line(house, case):
    old, new, row, metric, title, said = CASES[case]
    assert old in PUBLISHED
    house.publish(PUBLISHED.replace(old, new, 1))
    house.run(house.recipe(row, GOAL % (row, metric, "")), VALUES[metric])
    comparison = compare()
    assert trained(comparison) == []
    (line,) = asides(comparison)
    assert line.startswith(f"{title}: ")
    assert said in line
    assert "toy, Table 1" in line
    assert line in render_overview()
    assert headline.headline(comparison, claims(comparison))[1].rows[0][2:6] == ("0",) * 4


def test_every_group_is_tested():
    assert {case[4] for case in CASES.values()} == set(headline.GROUPS)


def test_a_repeated_number_is_no_chance_result_of_its_own(house):
    house.publish(PUBLISHED.replace(SMALL, f"chance: 27.5, same_as: table1/base, {SMALL}"))
    house.run(house.recipe("small"), VALUES["bleu"])
    (line,) = asides(compare())
    assert line.startswith(headline.AGAIN)
    assert "1 at chance" in line


def test_groups_keep_their_order_and_numbers_of_one_group_share_a_line(house):
    house.run(house.recipe("drawn"), [12.0])
    house.run(house.recipe("rival"), [20.0])
    house.run(
        house.recipe("rerun", "{table: external-rerun, row: rerun, metric: bleu, measured: test/bleu}"),
        [29.0],
    )
    house.run(house.recipe("base", GOAL % ("base", "speed", "")), [900.0])
    house.run(house.recipe("drawn", GOAL % ("drawn", "ppl", ""), name="other"), [4.0])
    found = asides(compare())
    titles = [headline.TIMED, headline.UNCONFIRMED, headline.OTHERS, headline.UNPRINTED]
    assert [line.partition(":")[0] for line in found] == titles
    assert found[3].partition(": ")[2] == "2 numbers: toy, Table 1."


def test_a_ratio_on_another_device_than_the_papers_is_timed(house):
    text = PUBLISHED.replace(SPEED, f"class: ratio, device: gpu, {ODD_MARGIN}")
    house.publish(text)
    name = house.recipe("base", GOAL % ("base", "speed", ""))
    house.run(name, VALUES["speed"], hardware={"device": "CPU", "count": 1, "threads": 2})
    assert [line.partition(":")[0] for line in asides(compare())] == [headline.TIMED]
    house.publish(text.replace("device: gpu", "device: cpu"))
    assert [cell.verdict for _, cell in trained(compare())] == ["reproduced"]


def test_results_stand_with_margin_difference_and_why(house):
    house.run(house.recipe("big"), [30.0, 30.2])
    house.run(house.recipe("base"), [27.9, 28.0, 28.1])
    said = render_overview()
    assert (
        "| Big (toy, Table 1) | bleu (BLEU) | 30 | 30.10 ± 1.27 | 2 | +0.10 | 0.5 | undecided: 2 of 3 seeds |"
        in said
    )
    assert "| 28 | 28.00 ± 0.25 | 3 | +0.00 | 0.5 | reproduced |" in said
    assert asides(compare()) == []


def counts(comparison):
    """Counted numbers, then those by verdict, then claims."""
    return headline.headline(comparison, claims(comparison))[1].rows[0][1:]


def test_the_denominator_does_not_depend_on_what_was_run(house):
    assert counts(compare()) == ("5", "0", "0", "0", "0", "0 / 0 / 0 / 0 / 0")
    house.run(house.recipe("big"), [33.0, 33.1, 33.2])
    house.run(house.recipe("base"), [28.0, 28.1, 28.2])
    house.run(house.recipe("small"), [20.0, 20.1, 20.2])
    house.run(house.recipe("rival"), [20.0, 20.1, 20.2])
    assert counts(compare()) == ("5", "1", "1", "1", "0", "0 / 1 / 0 / 0 / 0")


def test_reduced_scales_stand_in_no_line(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [77.7] * 3, "cpu")
    assert asides(compare()) == []
    assert "77.7" not in render_overview()


def rows(house):
    for row, middle in (("big", 30.0), ("base", 28.0), ("small", 28.0)):
        house.run(house.recipe(row), [middle - 0.1, middle, middle + 0.1])


def test_only_claims_that_count_are_listed(house):
    rows(house)
    said = render_overview()
    assert "- holds: Bigger is better. (toy, n = 3, paper scale)" in said
    assert "Base and small are alike." not in said  # part of the other
    assert counts(compare())[-1] == "1 / 0 / 0 / 0 / 0"
    terms = "id: bigger-is-better, at: {paper: {mechanism: out of reach}}"
    house.publish(PUBLISHED.replace("id: bigger-is-better", terms))
    assert "Bigger is better." not in render_overview()
    assert counts(compare())[-1] == "0 / 0 / 0 / 0 / 0"


def test_the_numbers_of_seeds_of_a_claims_rows_are_named(house):
    rows(house)
    house.record("toy/base", 4, 28.0)
    assert "(toy, n = 3 to 4, paper scale)" in render_overview()
