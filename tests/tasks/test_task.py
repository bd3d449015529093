"""Inherited by every task: state carried over batches survives in global row order."""

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader

from repro.nn.mixer import tree_map
from repro.tasks.task import join_rows
from repro.training.checkpoints import DurableIO, checkpoint_path
from repro.training.saving import Checkpoints, StepCheckpoints
from tests.tasks.toy import Toy


@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_rows_of_all_ranks_are_joined_in_global_order(ranks: int) -> None:
    rows = torch.arange(24.0).view(6, 4)
    whole = {"stream": (rows, {"length": rows[:, 0].long()}), "memory": rows[:, :0]}
    parts = [tree_map(lambda t, r=rank: t[r::ranks], whole) for rank in range(ranks)]
    joined = join_rows(parts)
    assert torch.equal(joined["stream"][0], rows)
    assert torch.equal(joined["stream"][1]["length"], rows[:, 0].long())
    assert joined["memory"].shape == (6, 0)
    assert join_rows([{}, {}]) == {}


def test_a_step_without_targets_has_no_loss() -> None:
    assert float(Toy().share_of_step(torch.tensor(0.0), 0)) == 0.0
    assert float(Toy().share_of_step(torch.tensor(6.0), 3)) == 2.0


class Carrying(Toy):
    """Its loss depends on all that it has seen."""

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        seen = self.carried.get("seen", torch.zeros(3, 1))
        self.carried = {"seen": torch.tanh(seen + self.net.weight.detach() + batch)}
        result = super().training_step((float(batch), 1), batch_idx)
        return {**result, "loss": (self.net(seen) * batch).sum()}


def carry(folder: Path, steps: int, resume: Path | None = None) -> Carrying:
    torch.manual_seed(0)
    files = DurableIO()
    task = Carrying()
    trainer = pl.Trainer(
        max_steps=steps, accelerator="cpu", callbacks=[StepCheckpoints(folder, Checkpoints(3), files)],
        plugins=[files], logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=0, limit_val_batches=0,
    )  # fmt: skip
    trainer.fit(task, DataLoader([0.5] * 7, batch_size=None), ckpt_path=resume, weights_only=True)
    return task


def test_a_resumed_task_carries_on(tmp_path: Path) -> None:
    whole = carry(tmp_path / "whole", 6)
    carry(tmp_path / "half", 3)
    resumed = carry(tmp_path / "half", 6, checkpoint_path(tmp_path / "half", 3))
    assert torch.equal(resumed.carried["seen"], whole.carried["seen"])
    assert torch.equal(resumed.net.weight, whole.net.weight)
    fresh = carry(tmp_path / "fresh", 3)
    assert not torch.equal(fresh.carried["seen"], whole.carried["seen"])
