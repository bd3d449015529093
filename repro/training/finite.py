"""NaN and infinity stop a run at the step where they appear, on all ranks, with the module's name."""

from functools import partial

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.optim import Optimizer

from repro.errors import ReproError
from repro.tasks.ranks import gather_objects


class NotFinite(ReproError):
    """A loss or a gradient is NaN or infinite."""


class Finite(Callback):
    """Looks at the loss of every micro-batch and at the gradients of every update, before the optimiser uses them.

    The weights and the last checkpoint stay as they were. With a loss scaler (16-bit floats) gradients may overflow by
    design, and only the loss is looked at.

    Raises:
        NotFinite: on every rank, at the same step; names the ranks and the first module that went wrong.
    """

    def __init__(self) -> None:
        self._losses: list[Tensor] = []
        self._batches: list[object] = []

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int
    ) -> None:
        self._batches.append(batch)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self._losses.append(loss.detach())

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        losses, self._losses = self._losses, []
        batches, self._batches = self._batches, []
        bad = ~torch.stack(losses).isfinite().all()
        if getattr(trainer.precision_plugin, "scaler", None) is None:
            grads = [p.grad for p in pl_module.parameters() if p.grad is not None]
            bad |= ~torch.nn.utils.get_total_norm(grads).isfinite()
        if not trainer.strategy.reduce_boolean_decision(bool(bad), all=False):
            return
        by_rank = gather_objects(bad_loss(trainer, pl_module, losses, batches))
        causes = [f"rank {rank}: {cause}" for rank, cause in enumerate(by_rank) if cause]
        causes = causes or [bad_gradient(pl_module)]
        step = trainer.global_step + 1
        raise NotFinite(f"step {step} is not finite, nothing was updated: {'; '.join(causes)}")


def bad_loss(
    trainer: Trainer, task: LightningModule, losses: list[Tensor], batches: list[object]
) -> str | None:
    """The fault in the loss of this rank, and the module where it began; None where the loss is finite."""
    for loss, batch in zip(losses, batches, strict=True):
        if not loss.isfinite():
            with trainer.precision_plugin.train_step_context():
                module = first_bad_module(task, batch)
            return f"the loss is {float(loss)}, first in {module or 'the loss itself'}"
    return None


def bad_gradient(task: LightningModule) -> str:
    """The gradient that is not finite while the loss is; gradients are the same on all ranks."""
    bad = [n for n, p in task.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]
    if not bad:
        return "the loss is finite, the norm of the gradient overflows"
    # It spoils those of all modules before it: the last one in the model's order was the first.
    return f"the loss is finite, the gradient of {bad[-1]} is not"


class _BadModule(Exception):
    """Ends a forward pass at the first module whose output is not finite."""


@torch.no_grad()
def first_bad_module(task: LightningModule, batch: object) -> str | None:
    """Repeats a micro-batch and names the first module whose output is not finite, or None."""

    def refuse(tensor: Tensor, name: str) -> None:
        if not tensor.isfinite().all():
            raise _BadModule(name)

    def check(name: str, module: nn.Module, _: object, output: object) -> None:
        apply_to_collection(output, Tensor, refuse, f"{name} ({type(module).__name__})", allow_frozen=True)

    for name, parameter in task.named_parameters():
        if not parameter.isfinite().all():
            return f"parameter {name}"
    named = [(name, module) for name, module in task.named_modules() if name]
    hooks = [module.register_forward_hook(partial(check, name)) for name, module in named]
    try:
        task.training_step(batch, 0)
    except _BadModule as stop:
        return str(stop)
    finally:
        for hook in hooks:
            hook.remove()
    return None
