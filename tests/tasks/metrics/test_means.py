"""Means over everything that was scored, however it is shared out."""

import math

import pytest
import torch

from repro.tasks.metrics.errors import Accuracy
from repro.tasks.metrics.means import Count, Likelihood, Mean


def test_a_mean_weighs_items_not_batches() -> None:
    mean = Mean()
    mean.update(torch.tensor(6.0), 2)
    mean.update(torch.tensor(1.0), torch.tensor(3))
    assert float(mean.compute()) == 7.0 / 5
    assert int(mean.count) == 5


def test_sums_are_exact_where_single_precision_is_not() -> None:
    mean, count = Mean(), Count()
    for value in (2.0**25, 1.0, 1.0):
        mean.update(torch.tensor(value), 1)
        count.update(2**24 + 1)
    assert float(mean.compute()) * 3 == 2.0**25 + 2
    assert int(count.compute()) == 3 * (2**24 + 1)


@pytest.mark.parametrize(
    ("derived", "factor"),
    [("bpc", 1 / math.log(2)), ("bpb", 1 / math.log(2)), ("bits_per_dim", 1 / math.log(2))],
)
def test_bits(derived: str, factor: float) -> None:
    metric = Likelihood(derived)
    metric.update(torch.tensor(9.0), 4)
    assert metric.compute() == pytest.approx({"loss": 2.25, derived: 2.25 * factor})


def test_a_perplexity_is_finite() -> None:
    metric = Likelihood("ppl")
    metric.update(torch.tensor(3000.0), 1)
    assert math.isfinite(metric.compute()["ppl"])
    metric.reset()
    metric.update(torch.tensor(1.0), 2)
    assert metric.compute() == pytest.approx({"loss": 0.5, "ppl": math.exp(0.5)})


def test_accuracy_counts_what_is_right() -> None:
    metric = Accuracy(4)
    metric.update(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 0]))
    metric.update(torch.tensor([], dtype=torch.long), torch.tensor([], dtype=torch.long))
    metric.update(torch.tensor([[0], [1], [2], [3]]), torch.tensor([[3], [3], [3], [3]]))
    assert float(metric.compute()) == 100.0 * 3 / 7
    assert int(metric.count) == 7
