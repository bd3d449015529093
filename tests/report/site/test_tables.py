from tests.evidence.test_compare import GOAL
from tests.report.fakes import PUBLISHED
from tests.report.pages import cells, page_of, row, tree_of

DASH = "\N{EN DASH}"


def test_ours_stands_below_the_papers_row_with_everything(house):
    house.run(house.recipe("big"), [29.9, 30.0, 30.1])
    paper, ours = row(tree_of(house), "big")
    assert cells(paper)[:4] == ["Big2,000 parameters", "30", "4", DASH]
    assert cells(ours)[:4] == [
        "ours: big1,234 parameters",
        "30.00 ± 0.25n = 3, +0.00reproduced",
        DASH,
        DASH,
    ]
    assert ours.get("class") == "ours"
    links = {a.get("href") for a in ours.all("a")}
    assert links == {"#runs-toy--big--paper"}


def test_a_row_that_agrees_in_its_verdict_says_it_once(house):
    tree = tree_of(house)
    (paper,) = row(tree, "big")
    assert cells(paper) == [
        "Big2,000 parameters",
        "30",
        "4",
        DASH,
        "no recipe neither a recipe nor a derivation",
    ]
    assert [b.text for b in paper.all("b")] == ["no recipe"]


def test_a_metric_that_nothing_measures_is_explained_below_the_table(house):
    text = "class: timed, description: 'while training'"
    house.publish(PUBLISHED.replace(text, f"{text}, no_recipe: 'only on one card'"))
    house.run(house.recipe("base"), [28.0])
    table = tree_of(house).one("details", id="table-toy--table1")
    assert "No run measures speed: only on one card." in [li.text for li in table.all("li")]
    assert cells(table.one("tbody", id="row-toy--table1--base").all("tr")[0])[3] == "900"


def test_a_reduced_scale_is_a_badge_that_leads_to_the_runs_and_no_number(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [12.5, 12.5], "cpu")
    (paper,) = row(tree_of(house), "big")
    assert "12.5" not in paper.text
    assert [a.get("href") for a in paper.all("a")] == ["#runs-toy--big--cpu"] * 2
    assert cells(paper)[1] == "30reduced scale"
    assert cells(paper)[-1].endswith("big (cpu)")


def test_rows_carry_what_the_filters_ask_for(house):
    house.run(house.recipe("big"), [29.9, 30.0, 30.1])
    house.recipe("big", scale="cpu", width=2)
    house.run("toy/big", [1.0], "cpu")
    house.recipe("base")
    tree = tree_of(house)
    about = {name: tree.one("tbody", id=f"row-toy--table1--{name}") for name in ("big", "base", "rival")}
    assert (about["big"].get("data-v"), about["big"].get("data-s")) == ("no-recipe reproduced", "paper cpu")
    assert (about["base"].get("data-v"), about["base"].get("data-s")) == ("no-recipe not-run", None)
    assert about["rival"].get("data-v") == "no-recipe"


def test_tables_where_something_was_measured_are_open(house):
    house.run(house.recipe("big"), [30.0])
    tree = tree_of(house)
    assert tree.one("details", id="table-toy--table1").get("open") is None
    assert "open" in tree.one("details", id="table-toy--table1").attributes
    assert "open" not in tree.one("details", id="table-toy--external-rerun").attributes
    assert (
        tree.one("details", id="table-toy--table1").one("summary").text.endswith("1 undecided, 7 no recipe")
    )


def test_others_numbers_are_said_to_be_others_and_unconfirmed(house):
    table = tree_of(house).one("details", id="table-toy--external-rerun")
    assert "Published by others, not by the paper." in table.text
    assert cells(table.all("tbody")[0].all("tr")[0])[1] == "29unconfirmed"


def test_a_number_without_recipe_that_is_not_in_the_table_is_unpublished(house):
    house.run(house.recipe("drawn"), [12.0])
    _, ours = row(tree_of(house), "drawn")
    assert cells(ours)[1] == "12.00n = 1unpublished"


def test_many_recipes_of_a_row_fold(house):
    for name in ("a", "b", "c"):
        house.recipe("big", name=name)
    (paper,) = row(tree_of(house), "big")
    fold = paper.one("details", cls="recipes")
    assert fold.one("summary").text == "3 recipes"
    assert [s.text for s in fold.all("span")] == ["a", "b", "c"]


def test_two_experiments_have_a_line_each(house):
    house.run(house.recipe("big"), [25.0])
    house.run(house.recipe("big", GOAL % ("big", "ppl", ""), name="other"), [4.01, 4.01, 4.01])
    lines = row(tree_of(house), "big")
    assert [cells(line)[0] for line in lines] == [
        "Big2,000 parameters",
        "ours: big1,234 parameters",
        "ours: other1,234 parameters",
    ]
    assert [cells(line)[2] for line in lines] == ["4", DASH, "4.010n = 3, +0.010reproduced"]


def test_metrics_of_one_meaning_share_a_note(house):
    said = "sacreBLEU. Class: trained, margin {}, set 2026-01-01."
    alike = PUBLISHED.replace("'per word'", "'sacreBLEU'")
    house.publish(alike)
    assert {f"bleu: {said.format('0.5')}", f"ppl: {said.format('1 %')}"} <= notes_of_table(house)
    house.publish(alike.replace("perplexity", "BLEU").replace("1%", "0.5"))
    assert f"bleu, ppl: {said.format('0.5')}" in notes_of_table(house)


def test_a_note_says_by_what_rule_a_column_is_judged(house):
    house.publish(PUBLISHED.replace("ppl: {unit", "ppl: {chance: 0, unit"))
    wanted = {
        "ppl: per word. Class: trained, margin 1 %, set 2026-01-01, chance 0.",
        "speed: while training. Class: timed.",
    }
    assert wanted <= notes_of_table(house)


def notes_of_table(house):
    return {li.text for li in tree_of(house).one("details", id="table-toy--table1").all("li")}


def test_the_files_of_the_paper_are_linked_from_each_table(house):
    tree = tree_of(house)
    for table in tree.all("details", cls="table"):
        links = [a.get("href") for a in table.one("span", cls="files").all("a")]
        assert links == ["tables/toy.csv", "tables/toy.tex", "tables/toy.md"]
        assert "All tables of the paper as CSV, LaTeX, Markdown" in table.text


def test_the_page_has_a_section_for_each_paper_with_all_its_tables(house):
    house.publish(PUBLISHED.replace("key: toy", "key: other").replace("A Toy Paper", "Another"), key="other")
    tree = tree_of(house)
    assert [s.get("data-paper") for s in tree.all("section", cls="paper")] == ["other", "toy"]
    assert [len(s.all("details", cls="table")) for s in tree.all("section", cls="paper")] == [2, 2]
    assert page_of(house).count('<tbody id="row-other--table1--') == 5
