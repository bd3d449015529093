"""Freed memory stays with the process, unless its environment chooses otherwise. Large weights are laid out anew while
an evaluation runs, and only then.
"""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from repro.nn.packed import LEAST_STEPS
from repro.training.cpu import PackedEvaluation, keep_freed_memory
from tests.tasks.toy import Toy, train

PAGES = 16384  # of 4 KiB, in the tensor of the probe
PROBE = """
import resource
import torch
from repro.training.cpu import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

keep_freed_memory()
torch.ones(2**24 + 2**12)
before = faults()
torch.ones(2**24)
print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_a_tensor_takes_the_memory_of_a_larger_one_before() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=clean, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < PAGES / 10


@pytest.mark.parametrize(("variable", "calls"), [(None, [(-4, 0), (-1, -1)]), ("MALLOC_TRIM_THRESHOLD_", [])])
def test_the_environment_chooses(
    variable: str | None, calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, int]] = []
    allocator = SimpleNamespace(mallopt=lambda *call: made.append(call))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: allocator)
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    if variable:
        monkeypatch.setenv(variable, "0")
    keep_freed_memory()
    assert made == calls


def test_other_c_libraries_have_no_such_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    keep_freed_memory()


class Endless(IterableDataset[int]):
    """Says no length; two batches."""

    def __iter__(self) -> Iterator[int]:
        yield from (0, 1)


class Wide(Toy):
    """Notes by what its wide layer is multiplied."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.wide = nn.Linear(256, 512)
        self.fails = fails
        self.seen: list[tuple[str, bool]] = []
        self.gaps: list[float] = []

    def _look(self, when: str) -> None:
        self.seen.append((when, "forward" in vars(self.wide)))

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        self._look("training")
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._look("validation")
        x = torch.randn(300, 256)
        self.gaps.append(
            float((self.wide(x) - nn.functional.linear(x, self.wide.weight, self.wide.bias)).abs().max())
        )
        if self.fails:
            raise RuntimeError("in validation")

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self._look("test")

    def predict_step(self, batch: Any, batch_idx: int) -> None:
        self._look("predict")


@pytest.mark.parametrize("batches", [LEAST_STEPS - 1, LEAST_STEPS])
def test_weights_are_packed_while_a_validation_of_enough_batches_runs(batches: int) -> None:
    task = Wide()
    train([PackedEvaluation()], 4, task=task, val_check_interval=2, val_batches=batches)
    assert set(task.seen) == {("training", False), ("validation", batches == LEAST_STEPS)}
    assert max(task.gaps) < 1e-4


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
def test_a_loader_of_unknown_length_is_long_enough(verb: str) -> None:
    """Lightning counts its batches as infinite."""
    task = Wide()
    loader = DataLoader(Endless())
    trainer = pl.Trainer(
        callbacks=[PackedEvaluation()], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    getattr(trainer, verb)(task, loader)
    assert {packed for _, packed in task.seen} == {True}
    assert "forward" not in vars(task.wide)


def test_an_error_in_a_validation_unpacks_them() -> None:
    task = Wide(fails=True)
    with pytest.raises(RuntimeError, match="in validation"):
        train([PackedEvaluation()], 4, task=task, val_check_interval=2, val_batches=LEAST_STEPS)
    assert task.seen[-1] == ("validation", True)
    assert "forward" not in vars(task.wide)
