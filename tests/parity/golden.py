"""Training runs of official codes: the files of ``tests/golden/trajectories``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.parity import report
from tests.parity.report import TRAINING

FOLDER = Path(__file__).parent.parent / "golden" / "trajectories"


@dataclass(frozen=True)
class Golden:
    """One file.

    Attributes:
        name: of the file, without suffix.
        arrays: its numbers; integers are int64.
        meta: ``source``, ``updates``, ``settings``.
    """

    name: str
    arrays: dict[str, Tensor]
    meta: dict[str, Any]

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.npz"

    @property
    def updates(self) -> int:
        return int(self.meta["updates"])

    def __getitem__(self, key: str) -> Tensor:
        return self.arrays[key]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The arrays whose names start with ``prefix/``, without it."""
        start = f"{prefix}/"
        return {key.removeprefix(start): value for key, value in self.arrays.items() if key.startswith(start)}

    @property
    def first_weights(self) -> dict[str, Tensor]:
        """Weights before the first update, under the official names."""
        return self.under("w0")

    @property
    def last_weights(self) -> dict[str, Tensor]:
        """Weights after the last update, under the official names."""
        return self.under(f"w{self.updates}")


def read(name: str) -> Golden:
    """Reads one file."""
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files if file[key].dtype.kind != "U"}
        meta = json.loads(str(file["meta"]))
    whole = {key: value if value.is_floating_point() else value.long() for key, value in arrays.items()}
    return Golden(name, whole, meta)


def check(
    paper: str,
    golden: Golden,
    differences: Mapping[str, float],
    tolerances: Mapping[str, float] = TRAINING,
    by_design: Sequence[str] = (),
) -> None:
    """:func:`tests.parity.report.check` of a training run."""
    report.check(
        paper, golden.path, golden.meta["source"], differences, tolerances, golden.updates, by_design
    )
