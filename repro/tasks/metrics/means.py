"""Means over everything that is scored, likelihoods among them."""

import math
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

LARGEST = 700.0  # its exponential is the largest perplexity that is reported
DERIVED = {
    "ppl": lambda nats: math.exp(min(nats, LARGEST)),
    "bpc": lambda nats: nats / math.log(2.0),
    "bpb": lambda nats: nats / math.log(2.0),
    "bits_per_dim": lambda nats: nats / math.log(2.0),
}


class Count(Metric):
    """The number of items."""

    full_state_update = False
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, count: Tensor | int) -> None:
        """Adds items."""
        self.count += count

    def compute(self) -> Tensor:
        """The number of items."""
        return self.count


class Total(Metric):
    """Base of means: a sum in float64 and an exact count, to which ranks add up.

    Attributes:
        count: number of values so far on this rank; over all ranks while the mean is computed.
    """

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")


class Mean(Total):
    """A sum in float64 over an exact count."""

    def update(self, total: Tensor, count: Tensor | int) -> None:
        """Adds the sum and the number of some values."""
        self.total += total
        self.count += count

    def compute(self) -> Any:
        """The mean; not a number where nothing was added."""
        return self.total / self.count


class Likelihood(Mean):
    """Mean negative log-likelihood in nats, ``loss``, and the same under another name and unit.

    Args:
        derived: ``ppl`` for a perplexity; ``bpc``, ``bpb`` or ``bits_per_dim`` for bits. None for nats alone.
    """

    def __init__(self, derived: str | None = None) -> None:
        super().__init__()
        self.derived = derived

    def compute(self) -> dict[str, float]:
        """The loss and, where it is asked for, the derived metric, by name."""
        nats = float(super().compute())
        return {"loss": nats} | ({self.derived: DERIVED[self.derived](nats)} if self.derived else {})
