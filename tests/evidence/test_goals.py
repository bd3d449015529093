"""The cells that recipes reproduce, and the published numbers of their measurements."""

from repro.evidence.compare import compare
from repro.evidence.entries import DERIVED
from repro.evidence.goals import expected, goals_of
from repro.recipe import Recipe, experiments, load_recipe, scales_of


def test_a_goal_is_a_cell_and_a_measurement(house):
    name = house.recipe("big", "{table: table1, row: big, metric: bleu, measured: test/bleu}")
    (goal,) = goals_of(load_recipe(name))
    assert (goal.table, goal.row, goal.metric, goal.measured) == ("table1", "big", "bleu", "test/bleu")


PAPER = "attention-is-all-you-need"


def cell(row: str = "transformer-base", measured: str = "test/bleu", **more: str) -> dict[str, str]:
    return {"table": "table2", "row": row, "metric": "bleu_en_de", "measured": measured} | more


def of(*cells: dict[str, str], paper: str = PAPER) -> dict[str, float]:
    return expected(Recipe(f"{paper}/x", "paper", {"reproduces": list(cells)}))


def test_one_cell_goes_by_the_measurement() -> None:
    assert of(cell()) == {"test/bleu": 27.3}
    assert of(cell(), cell("transformer-big", "test/other")) == {"test/bleu": 27.3, "test/other": 28.4}


def test_several_cells_of_one_measurement_are_told_apart() -> None:
    assert of(cell(), cell("transformer-big")) == {
        "test/bleu@table2:transformer-base": 27.3,
        "test/bleu@table2:transformer-big": 28.4,
    }


def test_what_has_no_number_is_left_out() -> None:
    assert of() == {}
    assert of(cell(row="of no table"), cell(table="none"), cell(metric="none")) == {}
    assert of(cell(), paper="a-paper-without-a-file") == {}


def test_every_recipe_of_a_paper_knows_the_numbers_that_tables_compare_it_with() -> None:
    goals: dict[tuple[str, str], set[tuple[str, float]]] = {}
    for entry in compare(PAPER).entries.values():
        for one in entry.cells:
            if entry.published is not None and one.goal.measured != DERIVED:
                goals.setdefault((one.goal.experiment, one.goal.scale), set()).add(
                    (one.goal.measured, entry.published)
                )
    assert goals
    for name in (name for name in experiments() if name.startswith(f"{PAPER}/")):
        for scale in scales_of(name):
            result = expected(load_recipe(name, scale))
            assert {(key.partition("@")[0], value) for key, value in result.items()} == goals.get(
                (name, scale), set()
            )
