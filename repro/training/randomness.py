"""Random states of all ranks, so that a resumed run draws what the uninterrupted one would have drawn."""

import random
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from repro.tasks.ranks import gather_objects, random_state, set_random_state


class Randomness(Callback):
    """Gives each rank its own random numbers (dropout), and keeps their states in checkpoints.

    Rank 0 continues with the state after the model was built; other ranks are seeded from it and their rank. A run
    that is resumed on another number of ranks cannot draw the same numbers, and is seeded anew from the saved state of
    rank 0, the rank and the step.
    """

    def __init__(self) -> None:
        self._saved: list[dict[str, Any]] = []

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint["random_states"] = gather_objects(random_state(pl_module.device))

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self._saved = checkpoint["random_states"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        rank = trainer.global_rank
        if len(self._saved) == trainer.world_size:
            set_random_state(self._saved[rank], pl_module.device)
        elif self._saved:
            set_random_state(self._saved[0], pl_module.device)
            seed_rank(rank, trainer.global_step)
        elif rank > 0:
            seed_rank(rank, trainer.global_step)


def seed_rank(rank: int, step: int) -> None:
    """Seeds every generator from the present state of torch's, the rank and the step."""
    drawn = int(torch.randint(2**62, ()))
    seed = int(np.random.SeedSequence([drawn, rank, step]).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - libraries draw from it
    torch.manual_seed(seed)
