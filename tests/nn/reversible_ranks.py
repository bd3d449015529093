"""Run by test_reversible_ranks.py in several real processes: data-parallel training of a reversible stack.

Usage: python reversible_ranks.py WORLD RANK FOLDER
"""

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from repro.nn import Layout
from tests.nn.ranks import be_a_rank
from tests.nn.reversible import STEPS, D, everything, inputs, objective

# Whether data-parallel training looks for unused parameters, and whether it averages after every batch.
VARIANTS = {"looks": (True, True), "trusts": (False, True), "looks, two batches at once": (True, False)}


class Model(nn.Module):
    """A stack that attends to a memory made by weights of its own; no dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = everything("mean", chunk=3)
        self.encoder = nn.Linear(D, D).double()
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            elif isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0  # of attention

    def forward(self, x: Tensor) -> Tensor:
        memory = self.stack.attend_to(self.encoder(x[:, :4]), None)
        return objective(self.stack(x, memory, Layout(True)))


def gradients(name: str, world: int, rank: int) -> dict[str, Tensor]:
    """Gradients of the sum over all rows of two batches, over the number of ranks."""
    torch.manual_seed(0)
    model = Model()
    looks, always = VARIANTS[name]
    wrapped: nn.Module = model
    if world > 1:
        wrapped = DistributedDataParallel(model, find_unused_parameters=looks)
    for batch in (0, 1):
        rows = inputs(4, STEPS, D, seed=batch).detach()
        held = nullcontext() if always or batch or world == 1 else wrapped.no_sync()  # type: ignore[operator]
        with held:
            # Every rank has rows of its own, alike for the weights of the objective.
            for mine in rows.split(2)[rank::world]:
                wrapped(mine).div(2 // world).backward()
    return {key: p.grad for key, p in model.named_parameters() if p.grad is not None}


if __name__ == "__main__":
    be_a_rank(gradients, VARIANTS)
