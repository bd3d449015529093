"""Run by test_adaptive_ranks.py in several real processes: two steps of data-parallel training of a vocabulary.

Usage: python adaptive_ranks.py WORLD RANK FOLDER
"""

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tests.nn.adaptive import CUTOFFS, VARIANTS, build
from tests.nn.ranks import be_a_rank

assert CUTOFFS == [7, 12, 16]  # the batches below are made for these
# Steps of rows, half of them for each of two ranks. Rank 0 never has a token of tail 3, rank 1 none of tail 1, nobody
# one of tail 2; in the second step rank 1 has tokens of one tail alone.
STEPS = [
    [[0, 7, 3, 11], [8, 9, 6, 1], [2, 16, 22, 5], [6, 20, 20, 0]],
    [[7, 7, 8, 11], [4, 1, 0, 0], [17, 17, 16, 22], [21, 19, 18, 22]],
]
NAMES = ["full width", "narrow tails", "narrow tails, nothing tied", "one width, tied by cluster"]


class Model(nn.Module):
    """Predicts each token from itself, through both sides of the vocabulary."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.vocabulary = build(**VARIANTS[name])

    def forward(self, ids: Tensor) -> Tensor:
        return self.vocabulary.nll(self.vocabulary.embed(ids).tanh(), ids)


def gradients(name: str, world: int, rank: int) -> dict[str, Tensor]:
    """Gradients of the mean loss over all rows, summed over the steps."""
    model = Model(name)
    # find_unused_parameters stays off: a weight without a gradient would stop the second step.
    wrapped = DistributedDataParallel(model) if world > 1 else model
    for rows in STEPS:
        share = len(rows) // world
        mine = torch.tensor(rows[rank * share : (rank + 1) * share])
        wrapped(mine).mean().backward()
    return {key: parameter.grad for key, parameter in model.named_parameters() if parameter.grad is not None}


if __name__ == "__main__":
    be_a_rank(gradients, NAMES)
