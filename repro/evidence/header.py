"""What a recipe is held against: cells of published tables, see :mod:`repro.reproduced`."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from repro.recipe import Recipe, load_recipe


@dataclass(frozen=True)
class Wanted:
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
class Goal(Wanted):
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
        """The cells that it is held against."""
        names = (self.recipe.experiment, self.recipe.scale)
        return [
            Goal(*names, **{"protocol": {}, **cell}) for cell in self.recipe.config.get("reproduces") or ()
        ]


def read_header(experiment: str, scale: str = "paper") -> Header:
    """Reads the header of one experiment at one scale."""
    return Header(load_recipe(experiment, scale))
