"""Figures of declared tests, as data."""

import pytest

from repro.evidence.table import read_evidence
from repro.record import Measurement
from repro.report.plots.plot import EFFECTS, HEADLINES, TESTS
from repro.report.plots.tested import each_test, effects, pictures, status_line
from tests.report.fakes import PUBLISHED, TEST
from tests.report.grids import swept
from tests.report.tested import STEADY, declare, run

COMPETENT = "competent: {row: base, level: 25, method: a phrase table}"


def panel(house):
    (plot,) = each_test(read_evidence())
    (result,) = plot.content.panels
    return result


def test_a_figure_of_each_test_with_records(house):
    run(house)
    declare(house)
    (plot,) = each_test(read_evidence())
    assert (plot.name, plot.kind) == ("toy--test--bigger-is-better-1.svg", TESTS)
    assert plot.caption == (
        "toy · bigger-is-better/1: Big has more BLEU than base after 100 updates. Scale small: same order."
    )


def test_its_panel_shows_rows_with_their_numbers_under_sentence_scale_and_verdict(house):
    run(house)
    declare(house)
    result = panel(house)
    head, title = result.title.split("\n\n")
    assert head == "Big has more BLEU than base after 100 updates."
    assert title == "Scale small: same order. 3 seeds."
    assert result.notes == [(0, "Big 30.50 ± 1.24"), (1, "Base 28.13 ± 0.38")]
    means = [line.points for line in result.lines if not line.thin]
    assert means == [[tuple(point) for point in STEADY["val/bleu"]]] * 2
    assert len(result.lines) == 2 + 6


def test_the_budget_is_marked_where_all_rows_have_the_same(house):
    run(house)
    assert (panel(house).rules, panel(house).shaded) == ([(25.0, "25 %"), (50.0, "50 %")], 75.0)
    house.record("toy/big", 4, 30.0, "small", steps=200, curves=STEADY)
    house.test((house.results / "tests" / "toy.yaml").read_text().replace("tuned: nothing", "seeds: 1-4"))
    assert (panel(house).rules, panel(house).shaded) == ((), None)


@pytest.mark.parametrize(
    ("line", "levels"),
    [
        (COMPETENT, [(25.0, "a phrase table: 25")]),
        (COMPETENT.replace("method", "measured: val/bleu, method"), [(25.0, "a phrase table: 25")]),
        (COMPETENT.replace("method", "measured: test/nll, method"), ()),
        ("curve: val/nll", ()),
    ],
)
def test_the_level_of_competence_is_a_line_where_the_curve_is_of_its_kind(house, line, levels):
    run(house, curves={**STEADY, "val/nll": [[100, 1.0]]})
    declare(house, line)
    assert panel(house).levels == levels


def test_a_test_can_show_a_sweep(house):
    speeds = swept("beam", "test/speed", {1: 2.0, 4: 1.0}, "tokens/s")
    run(house, metrics=[Measurement("test/bleu", 30.0, "BLEU", "test"), *speeds])
    declare(house, "sweep: test/speed", COMPETENT)
    result = panel(house)
    assert (result.x_label, result.y_label, result.levels) == ("beam", "test/speed (tokens/s)", ())
    assert (result.rules, result.shaded) == ((), None)
    assert [line.points for line in result.lines if not line.thin] == [[(1, 2.0), (4, 1.0)]] * 2


def test_rows_of_one_experiment_are_one_line_with_all_their_numbers(house):
    run(house)
    house.test((house.results / "tests" / "toy.yaml").read_text().replace("base: toy/base", "base: toy/big"))
    result = panel(house)
    assert [words for _, words in result.notes] == ["Big 30.50 ± 1.24; Base 30.50 ± 1.24"]
    assert {line.look for line in result.lines} == {0}


def test_no_figure_without_records_or_a_curve(house):
    for row in ("big", "base"):
        house.recipe(row)
        house.recipe(row, scale="small")
    assert each_test(read_evidence()) == []
    run(house, curves={})
    assert each_test(read_evidence()) == []
    (plot,) = effects(read_evidence())
    assert plot.kind == EFFECTS


def test_effects_are_grouped_by_test_and_say_whether_they_count(house):
    run(house)
    (plot,) = effects(read_evidence())
    assert plot.name == "toy--effects.svg"
    ((words, counts, (effect,)),) = plot.content.groups
    assert words == (
        "Big has more BLEU than base after 100 updates. Scale small: not a fair test (not declared)."
    )
    assert not counts
    assert (effect.rows, effect.published) == (("Big", "Base"), pytest.approx(100 * 2 / 28))
    declare(house)
    (plot,) = effects(read_evidence())
    assert plot.content.groups[0][1]


def test_a_label_of_the_test_goes_before_the_printed_one(house):
    run(house)
    text = (house.results / "tests" / "toy.yaml").read_text()
    house.test(text.replace("base: toy/base", "base: {run: toy/base, label: 'Base, 100 tokens'}"))
    ((_, _, (effect,)),) = effects(read_evidence())[0].content.groups
    assert effect.rows == ("Big", "Base, 100 tokens")


def test_a_check_of_the_code_says_so_and_does_not_count(house):
    run(house)
    declare(house, "check: built so")
    (one,) = read_evidence().tested["toy"]
    assert status_line(one) == "Scale small: check of the code, same order."
    assert not effects(read_evidence())[0].content.groups[0][1]
    assert pictures(read_evidence()) == []


def test_the_picture_of_a_paper_is_of_the_test_that_its_file_names(house):
    run(house)
    declare(house, picture=False)
    assert pictures(read_evidence()) == []
    declare(house)
    one, every = pictures(read_evidence())
    assert [(plot.name, plot.kind) for plot in (one, every)] == [
        ("toy--picture.svg", HEADLINES),
        ("pictures.svg", HEADLINES),
    ]
    head, title = one.content.panels[0].title.split("\n\n")
    assert head == "A Toy Paper (2020)"
    assert title == "Big has more BLEU than base after 100 updates.\nScale small: same order. 3 seeds."


def test_pictures_of_all_papers_are_in_one_figure_by_year(house):
    run(house)
    declare(house)
    older = PUBLISHED.replace("key: toy", "key: aged").replace("year: 2020", "year: 2010")
    house.publish(older, "aged")
    assert [len(plot.content.panels) for plot in pictures(read_evidence())] == [1, 1]


def test_a_test_that_is_not_fair_is_no_picture(house):
    run(house)
    assert pictures(read_evidence()) == []
    declare(house, test=TEST.replace("tuned: nothing", "tuned: paper"))
    assert pictures(read_evidence()) == []


def test_a_test_is_shown_once_for_each_attempt(house):
    run(house)
    second = TEST.replace("attempt: 1", "attempt: 2\n    changed: the margin")
    declare(house, test=TEST + second)
    names = [plot.name for plot in each_test(read_evidence())]
    assert names == ["toy--test--bigger-is-better-1.svg", "toy--test--bigger-is-better-2.svg"]
