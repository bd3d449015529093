"""The published numbers of the measurements that a run will make."""

from repro.evidence.header import Header
from repro.evidence.published import load_paper, paper_keys
from repro.recipe import Recipe


def expected(recipe: Recipe) -> dict[str, float]:
    """The published number for each measurement that the recipe reproduces, by the measurement's name.

    A name that stands for several cells is given once for each, as ``<name>@<table>:<row>``. Cells without a printed
    number are left out, as are those that the paper does not have, which `repro tables` refuses. At a reduced scale the
    numbers are those of the paper all the same.

    Args:
        recipe: resolved.

    Raises:
        UserError: a malformed file of published numbers.
    """
    if recipe.paper not in paper_keys():
        return {}
    tables = load_paper(recipe.paper).tables
    numbers: dict[str, dict[str, float]] = {}
    for goal in Header(recipe).goals:
        row = tables[goal.table].rows.get(goal.row) if goal.table in tables else None
        if row is not None and goal.metric in row.values:
            numbers.setdefault(goal.measured, {})[f"{goal.table}:{goal.row}"] = row.values[goal.metric]
    flat = {}
    for name, cells in numbers.items():
        for cell, value in cells.items():
            flat[name if len(cells) == 1 else f"{name}@{cell}"] = value
    return flat
