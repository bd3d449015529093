"""docs/cost.md is what `repro cost --markdown` prints."""

import pytest

from repro.experiment.costs.estimate import cost
from repro.experiment.costs.page import page, recipes
from repro.recipe import experiments, load_recipe, scales_of
from tests.workshop import PROJECT

PAGE = PROJECT / "docs" / "cost.md"
FEW = ("attention-is-all-you-need/base", "linear-transformer/copy")


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("recipe", FEW)
def test_a_row_of_the_page_is_what_is_counted_now(recipe: str) -> None:
    points = [name for name in experiments() if name.partition("@")[0] == recipe]
    row = cells(recipes(cost(load_recipe(name)) for name in points).splitlines()[2])
    assert row in [cells(line) for line in PAGE.read_text().splitlines()]


def test_the_page_names_every_recipe_and_says_that_none_needs_shards() -> None:
    text = PAGE.read_text()
    for name in (name for name in experiments() if "paper" in scales_of(name)):
        paper, recipe = name.partition("@")[0].split("/")
        section = text.partition(f"\n## {paper}\n")[2].partition("\n## ")[0]
        assert f"| {recipe} " in section, name
    assert "No recipe needs FSDP" in text


@pytest.mark.matrix
@pytest.mark.timeout(3600)
def test_the_page_is_what_is_counted_now() -> None:
    counted = (cost(load_recipe(name)) for name in experiments() if "paper" in scales_of(name))
    assert page(counted) == PAGE.read_text(), "repro cost --markdown > docs/cost.md"


@pytest.mark.matrix
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scale", ["gpu", "small", "cpu"])
def test_every_other_recipe_is_counted_too(scale: str) -> None:
    for name in experiments():
        if scale in scales_of(name):
            result = cost(load_recipe(name, scale))
            assert result.flops > 0
            assert result.row.peak <= result.step.peak
            assert result.step.peak >= result.step.parameters + result.step.gradients + result.step.optimizer
