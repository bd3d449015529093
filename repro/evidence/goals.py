"""The published cells that a recipe reproduces, see :func:`repro.recipe.reproduced`, and their numbers."""

from dataclasses import dataclass

from repro.evidence.published import Paper, load_paper, paper_keys
from repro.recipe import Recipe


@dataclass(frozen=True)
class Goal:
    """A published cell that a recipe reproduces at one scale.

    Attributes:
        measured: :attr:`repro.record.Measurement.name`.
    """

    experiment: str
    scale: str
    table: str
    row: str
    metric: str
    measured: str


def goals_of(recipe: Recipe) -> list[Goal]:
    """The published cells that a recipe reproduces."""
    cells = recipe.config.get("reproduces") or ()
    return [Goal(recipe.experiment, recipe.scale, **cell) for cell in cells]


def expected(recipe: Recipe) -> dict[str, float]:
    """The published numbers as :func:`numbers_for` gives them; empty for a recipe without a published paper.

    Raises:
        UserError: a malformed file of published numbers.
    """
    return numbers_for(recipe, load_paper(recipe.paper)) if recipe.paper in paper_keys() else {}


def numbers_for(recipe: Recipe, paper: Paper) -> dict[str, float]:
    """The published number for each measurement that the recipe reproduces, by the measurement's name.

    A name of several cells is given once for each, as ``<name>@<table>:<row>``. Cells without a printed number are left
    out, as are cells that the paper does not have, which `repro tables` refuses. Numbers at a reduced scale are the
    paper's, too.
    """
    numbers: dict[str, dict[str, float]] = {}
    for goal in goals_of(recipe):
        table = paper.tables.get(goal.table)
        row = table.rows.get(goal.row) if table else None
        if row is not None and goal.metric in row.values:
            numbers.setdefault(goal.measured, {})[f"{goal.table}:{goal.row}"] = row.values[goal.metric]
    flat = {}
    for name, cells in numbers.items():
        for cell, value in cells.items():
            flat[name if len(cells) == 1 else f"{name}@{cell}"] = value
    return flat
