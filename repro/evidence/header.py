"""The published cells that a recipe reproduces, see :mod:`repro.reproduced`, and their numbers."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from repro.evidence.published import load_paper, paper_keys
from repro.recipe import Recipe, load_recipe


@dataclass(frozen=True)
class Query:
    """A measurement to look for in the records of one experiment at one scale.

    Attributes:
        measured: :attr:`repro.record.Measurement.name`.
        protocol: entries that the measurement's protocol must hold.
    """

    experiment: str
    scale: str
    measured: str
    protocol: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Goal(Query):
    """A published cell that a recipe reproduces."""

    table: str = ""
    row: str = ""
    metric: str = ""


class Header:
    """The goals of one experiment at one scale; its configuration is hashed on first use."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    @cached_property
    def config_hash(self) -> str:
        """SHA-256 over the recipe's signature, as in its records."""
        return self.recipe.config_hash

    @property
    def seeds(self) -> frozenset[int]:
        """The judged seeds."""
        return frozenset(self.recipe.seeds)

    @cached_property
    def goals(self) -> list[Goal]:
        """The published cells that it reproduces."""
        names = (self.recipe.experiment, self.recipe.scale)
        return [
            Goal(*names, **{"protocol": {}, **cell}) for cell in self.recipe.config.get("reproduces") or ()
        ]


def read_header(experiment: str, scale: str = "paper") -> Header:
    """Reads the header of one experiment at one scale."""
    return Header(load_recipe(experiment, scale))


def expected(recipe: Recipe) -> dict[str, float]:
    """The published number for each measurement that the recipe reproduces, by the measurement's name.

    A name of several cells is given once for each, as ``<name>@<table>:<row>``. Cells without a printed number are left
    out, as are cells that the paper does not have, which `repro tables` refuses. Numbers at a reduced scale are the
    paper's, too.

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
