"""Groups and tags: closed lists, and nothing that W&B would refuse."""

import dataclasses
from typing import Any

from repro.mirror import labels
from repro.recipe import Recipe

CELLS = [
    {"table": "table2", "row": "base", "metric": "m"},
    {"table": "table3", "row": "b"},
    {"table": "table2", "row": "c"},
]


def recipe(scale: str = "paper", cells: Any = CELLS, experiment: str = "some-paper/base@small") -> Recipe:
    return Recipe(experiment, scale, {"reproduces": cells})


def test_a_group_is_the_first_cell_at_paper_scale_and_the_experiment_elsewhere() -> None:
    assert labels.group(recipe(), 1) == "some-paper:table2:base"
    assert labels.group(recipe("cpu"), 1) == "some-paper/base@small/cpu"
    assert labels.group(recipe(cells=None), 1) == "some-paper/base@small/paper"


def test_runs_that_are_not_judged_have_groups_of_their_own() -> None:
    changed = dataclasses.replace(recipe("cpu"), overrides=("--trainer.max_steps=9",))
    placed = dataclasses.replace(recipe("cpu"), overrides=("--trainer.devices=2",))
    assert labels.group(recipe("cpu"), 101) == "some-paper/base@small/cpu/tuning"
    assert labels.group(recipe(), 101) == "some-paper:table2:base/tuning"
    assert labels.group(changed, 1) == "some-paper/base@small/cpu/overridden"
    assert labels.group(placed, 1) == "some-paper/base@small/cpu"


def test_tags_are_paper_scale_tables_and_standing_and_nothing_else() -> None:
    tables = ["some-paper:table2", "some-paper:table3"]
    assert labels.tags(recipe(), 1) == ["judged", "paper", "some-paper", *tables]
    assert labels.tags(recipe("cpu", None), 101) == ["cpu", "some-paper", "tuning"]
    assert all(len(tag) <= 64 for tag in labels.tags(recipe(experiment="p" * 100 + "/x"), 1))
