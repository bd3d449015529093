"""What a recipe reproduces: the entries of its ``reproduces``, checked.

``reproduces: [{table, row, metric, measured, protocol?}]``: ``metric`` is the published name, ``measured`` the name in
the run records. Every key of ``protocol`` must equal that of the measurement. How the number is judged stands in the
published file. A scale or point that names the list replaces it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from repro.errors import UserError, nearest
from repro.recipe import Recipe, load_recipe

_REPRODUCES = ("table", "row", "metric", "measured", "protocol")


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
        self._where = f"{recipe.experiment} at scale {recipe.scale}"

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
        """Entries of ``reproduces``."""
        return [
            Goal(**self._common(e, str(e["measured"])), table=e["table"], row=e["row"], metric=e["metric"])
            for e in self._entries("reproduces", _REPRODUCES, required=4)
        ]

    def _entries(self, key: str, known: tuple[str, ...], required: int) -> list[dict[str, Any]]:
        entries = self.recipe.config.get(key) or []
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            self._refuse(key, "write a list of mappings")
        for entry in entries:
            for name in entry.keys() - set(known):
                self._refuse(key, f"unknown key {name!r}{nearest(str(name), known)}")
            for name in known[:required]:
                if not isinstance(entry.get(name), str):
                    self._refuse(key, f"{name!r} is {entry.get(name)!r}; it must be a text")
        return entries

    def _common(self, entry: dict[str, Any], measured: str) -> dict[str, Any]:
        protocol = entry.get("protocol") or {}
        if not isinstance(protocol, dict):
            self._refuse("protocol", f"{protocol!r} is not a mapping")
        return {
            "experiment": self.recipe.experiment,
            "scale": self.recipe.scale,
            "measured": measured,
            "protocol": protocol,
        }

    def _refuse(self, key: str, problem: str) -> None:
        raise UserError(f"{self._where}: {key}: {problem}")


def read_header(experiment: str, scale: str = "paper") -> Header:
    """Reads the header of one experiment at one scale."""
    return Header(load_recipe(experiment, scale))
