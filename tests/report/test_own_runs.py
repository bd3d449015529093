"""Runs side by side: their order, and the settings and titles of runs of several recipes."""

import pytest

from repro.report.own_runs import comparison, curves, group


@pytest.fixture
def records(house):
    """Three rates of one recipe, and one run of another with the first one's rate."""
    house.recipe("big")
    house.recipe("other")
    changes = [("big", 0.1), ("big", 0.02), ("big", 0.003), ("other", 0.02)]
    drawn = {"val/x": [[1, 3.0], [2, 2.0]]}
    return [
        house.record(
            f"toy/{recipe}", 1, 30.0, curves=drawn, config_hash=f"{i:064x}"[::-1],
            config={"model": {"lr": rate}, "trainer": {"max_steps": 3}},
        )
        for i, (recipe, rate) in enumerate(changes, 1)
    ]  # fmt: skip


def test_rows_are_in_the_order_of_numbers_and_show_what_differs_elsewhere(records):
    header, rows = comparison(group(records), [])
    assert header == ["run", "lr", "seeds"]
    assert [row[:2] for row in rows] == [
        ["toy/big", "0.003"], ["toy/big", "0.02"], ["toy/big", "0.1"], ["toy/other", "0.02"],
    ]  # fmt: skip


def test_the_figure_of_several_recipes_names_them(records):
    assert curves(group(records)).content.title.startswith("toy/big, toy/other, ")
