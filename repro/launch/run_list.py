"""A list file: the runs of one machine, in order. A YAML list whose entries have the fields of :class:`ListEntry`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro.errors import UserError
from repro.launch.targets import RunSpec, few_seeds, recorded, resolve_targets
from repro.seeds import SeedChoice
from repro.yamls import read_yaml


@dataclass(frozen=True)
class ListEntry:
    """Runs of the same scale, seeds and settings.

    Attributes:
        targets: papers, tables, rows or experiments.
        seeds: see :class:`repro.seeds.SeedChoice`.
        set: values by key of the recipe.
    """

    targets: list[str]
    scale: str = "paper"
    seeds: str = "3"
    set: dict[str, Any] = field(default_factory=dict)


def read_list(path: Path) -> list[ListEntry]:
    """Reads a list file.

    Raises:
        UserError: no such file, or an entry that is none.
    """
    try:
        entries = [ListEntry(**entry) for entry in read_yaml(path)]
        for entry in entries:
            names = entry.targets if isinstance(entry.targets, list) else []
            if not names or not all(isinstance(name, str) for name in names):
                raise TypeError(f"targets must be a list of names, not {entry.targets!r}")
            if not isinstance(entry.set, dict) or not all(isinstance(key, str) for key in entry.set):
                raise TypeError(f"set must be a mapping of keys to values, not {entry.set!r}")
        return entries
    except TypeError as error:
        raise UserError(f"{path}: an entry is {{targets: [...], scale, seeds, set: {{}}}}: {error}") from None


def resolve_list(entries: Sequence[ListEntry]) -> tuple[list[RunSpec], list[str]]:
    """The runs of all entries in order, and notices about recipes with fewer judged seeds than requested."""
    done = recorded()
    specs: list[RunSpec] = []
    notices: list[str] = []
    for entry in entries:
        seeds = SeedChoice.parse(str(entry.seeds))
        resolved = resolve_targets(entry.targets, entry.scale, seeds, list(entry.set.items()), done)
        specs += resolved
        notices += few_seeds(resolved, seeds)
    return specs, notices
