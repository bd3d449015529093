"""Initial weights of shortcuts: one pass over the first global batch, before the first update of a new run."""

import copy
from collections.abc import Iterable
from typing import Protocol, cast

from lightning.pytorch import LightningModule, Trainer
from torch import nn

from repro.batches import Batch
from repro.errors import ReproError
from repro.nn.layers.shortcut import Beginnings, begin, begin_by_variance, beginnings
from repro.record import Measurement
from repro.tasks.lightning_private import datamodule_of
from repro.tasks.ranks import by_rank_0, random_state, set_random_state


class TrainingData(Protocol):
    """The source of the first batch."""

    trainer: Trainer | None
    num_workers: int

    def train_dataloader(self) -> Iterable[Batch]:
        """Training batches of this rank."""
        ...


def profile(task: LightningModule, net: nn.Module) -> None:
    """Sets the initial value of every weighted shortcut of a network, if it has any.

    Rank 0 runs the network once in training mode on global batch 0, whole, whatever shares of it ranks and
    micro-batches take, and sends the values to the others. A network that has begun is left unchanged: it was resumed,
    or has the weights of another run. Random numbers stay as they were.

    Args:
        task: a :class:`~repro.tasks.task.Task` under a Trainer with a datamodule, on its device.
        net: its network.

    Raises:
        ReproError: the pass cannot be made, or only some shortcuts have begun, on every rank; gives the reason.

    Deviation: from the authors' code, which runs one GPU's share of a batch in a run of its own. Here numbers do not
    depend on the number of GPUs, at the price of memory for one sublayer's activations over a whole global batch.
    """
    begun = [value > 0 for values in beginnings(net).values() for value in values]
    if all(begun):
        return
    if any(begun):
        raise ReproError(
            "some weighted shortcuts have an initial value and others have none; give all or none"
        )

    def measured() -> Beginnings:
        try:
            return _measured(task, net)
        except ValueError as error:
            raise ReproError(f"profiling the network before its first update: {error}") from None

    begin(net, by_rank_0(measured))


def _measured(task: LightningModule, net: nn.Module) -> Beginnings:
    trainer = task.trainer
    states = random_state(task.device)
    batch = trainer.strategy.batch_to_device(first_batch(cast(TrainingData, datamodule_of(trainer))))
    try:
        with trainer.precision_plugin.train_step_context():
            return begin_by_variance(net, lambda: task.training_step(batch, 0))
    finally:
        set_random_state(states, task.device)


def first_batch(data: TrainingData) -> Batch:
    """Global batch 0 of training, whole, as for a single process; the datamodule is unchanged."""
    alone = copy.copy(data)
    alone.trainer = None
    alone.num_workers = 0
    return next(iter(alone.train_dataloader()))


def profiled(net: nn.Module) -> list[Measurement]:
    """The initial values of the weighted shortcuts of each stack: the last, and the mean over branches."""
    results = []
    for name, values in beginnings(net).items():
        place = name.replace(".", "_")
        protocol = {
            "batch": "global batch 0, training mode, padding included",
            "omegas": [float(f"{value:.6g}") for value in values],
        }
        for suffix, value in (("", values[-1]), ("_mean", sum(values) / len(values))):
            results.append(
                Measurement(f"profile/omega_{place}{suffix}", value, "factor", "train", protocol, len(values))
            )
    return results
