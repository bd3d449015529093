"""Tasks that measure, run from the first update to the record's numbers."""

from typing import Any

import lightning.pytorch as pl

from repro.data import NoiseData
from repro.tasks.costs.measuring import Measuring


def measured(task: Measuring, width: int) -> dict[str, Any]:
    """The measurements by name; none has the name of another."""
    trainer = pl.Trainer(
        max_steps=1, limit_val_batches=0, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(task, datamodule=NoiseData(2, width, 4, 2))
    trainer.test(task, datamodule=NoiseData(2, width, 4, 2), verbose=False)
    result = {m.name: m for m in task.measurements()}
    assert len(result) == len(task.measurements())
    return result
