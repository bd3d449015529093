"""What is said of a test: sentence, runs, path, effects, gate, attempts."""

import json
import re
from dataclasses import replace

import pytest

from repro.evidence.table import read_evidence
from repro.report.formats.blocks import Figure, Heading, VerdictWord
from repro.report.formats.documents import markdown
from repro.report.plots.chart import Chart
from repro.report.plots.plot import CURVES, Plot
from repro.report.views.tests import document_of_tests, grid_of_tests, one_test
from repro.report.views.words import effect_words, outcome
from tests.report.fakes import TEST, UNTESTED
from tests.report.views.fair import TWO, fair, recipes, run


def found(name="bigger-is-better/1"):
    evident = read_evidence()
    one = evident.test("toy", name)
    assert one is not None
    return evident, one


def page(**changes):
    evident, one = found(**changes)
    return markdown(one_test(evident, one, []))


def test_a_fair_test_shows_all_that_it_rests_on(house):
    fair(house)
    said = page()
    assert said.split("\n\n")[1] == "# Big has more BLEU than base after 100 updates."
    for line in (
        "A Toy Paper. Claim bigger-is-better, attempt 1 of 1.",
        "| same order | reduced scale: small |",
        "The paper: Bigger is better. (Table 1, bleu)",
        "| val/bleu after | 25 % of the updates | 50 % of the updates | 100 % of the updates |",
        "| Big | \N{EN DASH} | 10.00 | 30.50 |",
        "| big ahead of base by | \N{EN DASH} | +0 % | +8.54 % |",
        "- Measured: test/bleu; margin 0.5; declared 2026-01-01",
        "- Price: 0.5 core-hours a row",
        "- Command: repro reproduce toy/big toy/base --scale small --seeds 1-3",
    ):
        assert line in said, line
    (big,) = re.findall(r"^\| Big \| &gt; .*$", said, re.M)
    assert "| 30 | 30.50 ± 1.24 BLEU | 3 of 3 | +8.54 % (+4.34 to +12.7), paper +7.14 % | toy/big |" in big
    gate = re.findall(r"^\| (declared|column|room) \| (\w+) \| .+ \|$", said, re.M)
    assert gate == [("declared", "yes"), ("column", "yes"), ("room", "yes")]


def test_a_planned_test_says_what_it_will_compare(house):
    recipes(house)
    said = page()
    assert "| planned | reduced scale: small |" in said
    assert "0 of 3" in said
    assert "declared not yet" in said
    assert "val/bleu" not in said
    assert "| Gate |" not in said


def test_a_test_that_fails_the_gate_names_the_condition(house):
    run(house)
    _, one = found()
    assert outcome(one) == VerdictWord("not a fair test", "not declared")
    assert "| declared | no | never; its first run began 2026-01-01 23:58 |" in page()


def test_a_check_of_the_code_is_no_evidence(house):
    recipes(house)
    house.declare(TEST.replace("    scale:", "    check: the task decides\n    scale:"))
    run(house)
    _, one = found()
    assert outcome(one) == VerdictWord("check of the code", "same order")
    assert "Check of the code: the task decides" in page()


def test_level_and_sweep_are_named(house):
    text = TEST.replace("    tuned: nothing", "    tuned: {key: model.width, values: [1, 2, 4], seeds: 100}")
    house.test(
        f"schema_version: 1\npaper: toy\ntests:{text}    competent: {{row: base, level: 20, method: copying}}\n"
        f"    other_quantity: no BLEU here\n{UNTESTED}"
    )
    said = page()
    assert "- Competence: base must reach 20 (copying)" in said
    assert "- Tuned: model.width from 1, 2, 4, on seeds 100" in said
    assert "- Another quantity than the column's: no BLEU here" in said


def test_simple_methods_on_the_data_of_the_records_are_listed(house):
    fair(house)
    level = {
        "data_sha256": "a" * 64,
        "measured": "test/bleu",
        "better": "higher",
        "method": "copying",
        "value": 5.0,
    }
    better, other = level | {"method": "5-gram", "value": 40.0}, level | {"measured": "test/ppl"}
    (house.results / "competence.json").write_text(json.dumps([level, better, other]))
    assert "- Simple methods: 5-gram 40.00; copying 5.000" in page()


def test_all_attempts_stand_on_the_page_of_each(house):
    changed = TWO.replace("    rows:", "    changed: more updates\n    rows:")
    house.test(f"schema_version: 1\npaper: toy\ntests:{TEST}{changed}{UNTESTED}")
    for name in ("bigger-is-better/1", "bigger-is-better/2"):
        said = page(name=name)
        assert (
            "| [attempt 1](tests.md#bigger-is-better-attempt-1) | reduced scale: small | planned | the first |"
            in said
        )
        assert "| planned | more updates |" in said


def test_commands_are_of_todays_recipes_and_of_each_rows_seeds(house):
    rows = "rows: {big: {run: 'toy/big@a b', seeds: 7}, base: {run: toy/base, config: 0123456789}}"
    text = re.sub(r"rows: .*", lambda _: rows, TEST)
    house.test(f"schema_version: 1\npaper: toy\ntests:{text}{UNTESTED}")
    assert [line for line in page().split("\n") if "Command" in line] == [
        "- Command: repro reproduce 'toy/big@a b' --scale small --seeds 7-7"
    ]


def test_the_effect_by_parts_is_left_out_where_the_curve_is_of_something_else(house):
    recipes(house)
    text = TEST.replace("    tuned:", "    settled: {curve: val/loss, within: 9}\n    tuned:")
    house.test(f"schema_version: 1\npaper: toy\ntests:{text}{UNTESTED}")
    for name in ("toy/big", "toy/base"):
        house.run(name, [30.0, 30.5, 31.0], "small", curves={"val/loss": [[25, 3.0], [100, 2.0]]})
    said = page()
    assert "| val/loss after |" in said
    assert "| big ahead of base by |" not in said


def test_rows_that_are_validated_in_different_windows_are_not_compared_during_training(house):
    recipes(house)
    other = {"model": {"init_args": {"validation": {"seq_len": 8}}}}
    house.run("toy/big", [30.0, 30.5, 31.0], "small", config=other)
    house.run("toy/base", [28.0, 28.1, 28.2], "small")
    said = page()
    assert "| val/bleu after |" in said
    assert "| big ahead of base by |" not in said


def test_the_figures_are_those_of_the_test_and_of_its_paper(house):
    run(house)
    evident, one = found()
    curves = "toy--test--bigger-is-better-1"
    names = ("toy--effects.svg", f"{curves}.svg", f"{curves}1.svg", "toy--big.svg")
    plots = [Plot(name, CURVES, "a caption", Chart("", [], [])) for name in names]
    shown = [block.name for block in one_test(evident, one, plots) if isinstance(block, Figure)]
    assert shown == [f"{curves}.svg", "toy--effects.svg"]
    without = one_test(evident, replace(one, effects=[]), plots)
    assert [block.name for block in without if isinstance(block, Figure)] == [f"{curves}.svg"]


def test_the_document_has_every_test_and_every_claim_without_one(house):
    document = document_of_tests(read_evidence())
    assert [block.text for block in document if isinstance(block, Heading)] == [
        "Tests of claims", "A Toy Paper", "bigger-is-better, attempt 1",
    ]  # fmt: skip
    said = markdown(document)
    assert "| Base and small are alike. | not run | 8 GPU hours a row |" in said
    assert "| Bigger is surer. | out of reach | needs the toys; nobody sells them |" in said


def test_a_line_of_a_test_has_its_scale_beside_the_outcome(house):
    fair(house)
    ((link, attempt, scale, verdict, effects),) = grid_of_tests([found()[1]]).rows
    assert (link.page, link.file) == ("toy--bigger-is-better-1.html", "tests.md#bigger-is-better-attempt-1")
    assert (attempt, scale, verdict) == ("1 of 1", "reduced scale: small", VerdictWord("same order"))
    assert effects == "+8.54 % (+4.34 to +12.7), paper +7.14 %"


@pytest.mark.parametrize(("big", "said"), [((30.0,) * 3, "+7.14 % (+7.14 to +7.14), paper +7.14 %")])
def test_an_effect_has_three_digits(house, big, said):
    fair(house, big=big, base=(28.0,) * 3)
    (effect,) = found()[1].effects
    assert effect_words(effect) == said
