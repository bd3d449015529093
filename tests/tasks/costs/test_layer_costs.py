"""Counts are those of table 1 to the last digit; times are there; what costs the same is found between the lengths."""

from functools import partial
from typing import Any

import pytest
import torch

from repro.nn.connections import AllPairs, Connection, Convolution, NearPairs, Recurrence
from repro.tasks import Constant, LayerCosts
from repro.tasks.costs.layer_costs import crossover, layers_to_connect, operations, sequential_steps
from tests.tasks.measured import measured

D, N, K, R = 8, 16, 3, 17
SIZES: dict[str, Any] = {
    "width": D, "length": N, "lengths": [32, 4, 8, 16], "widths": [4, 8, 16, 32], "depths": [16, 32, 64, 128],
    "repeats": 1,
}  # fmt: skip
# Multiply-adds, exponents of n and d in them, and of n in sequential steps and path length.
TABLE: dict[type[Connection], tuple[int, list[float]]] = {
    AllPairs: (2 * N * N * D, [2, 1, 0, 0]),
    NearPairs: (2 * N * R * D, [1, 1, 0, 1]),
    Recurrence: (2 * N * D * D, [1, 2, 1, 1]),
    Convolution: (K * N * D * D, [1, 2, 0]),
}


def costs(layer: Any, **settings: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    return measured(LayerCosts(layer, partial(torch.optim.SGD, lr=0.1), Constant, **{**SIZES, **settings}), D)


@pytest.mark.parametrize("kind", TABLE)
def test_counted_exponents_are_exact(kind: type[Connection]) -> None:
    count, exponents = TABLE[kind]
    assert operations(kind(D), torch.randn(1, N, D)) == count
    result = costs(kind, rows=2)
    names = [
        "operations_exponent_n",
        "operations_exponent_d",
        "sequential_steps_exponent_n",
        "path_length_exponent_n",
    ]
    for name, expected in zip(names, exponents, strict=False):
        assert result[f"cost/{name}"].value == pytest.approx(expected, abs=1e-9)
    assert result[f"cost/operations_n{N}"].value == count, "of one sequence, however many are timed together"
    assert result[f"cost/milliseconds_d{D}"].value > 0
    assert result["cost/time_exponent_n"].protocol == {
        "exponent_of": "cost/milliseconds", "by": "length", "lengths": [4, 8, 16, 32],
    }  # fmt: skip
    assert result[f"cost/operations_n{N}"].protocol == {
        "sweep": "length", "of": "cost/operations", "length": N, "at": f"width {D}",
    }  # fmt: skip


def test_paths() -> None:
    assert [layers_to_connect(AllPairs(4).double(), n) for n in (2, 64)] == [1, 1]
    assert [layers_to_connect(NearPairs(4, 8).double(), n) for n in (9, 10, 17, 18, 128)] == [1, 2, 2, 3, 16]
    spread = [layers_to_connect(Convolution(4).double(), 3**power) for power in range(1, 6)]
    assert spread == [2, 4, 6, 8, 10], "twice the logarithm to the base of the kernel"


class Blind(Connection):
    """Connects nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_a_layer_that_never_connects_says_so() -> None:
    with pytest.raises(ValueError, match="4 places"):
        layers_to_connect(Blind(), 4)


def test_only_products_that_wait_for_each_other_count() -> None:
    x = torch.randn(3, 3, requires_grad=True)
    assert sequential_steps(x * 2) == 0
    assert sequential_steps(x @ x + x @ x) == 1
    assert sequential_steps((x @ x).sin() @ x + x @ x) == 2


def test_where_two_layers_cost_the_same() -> None:
    result = costs(AllPairs, against=Recurrence)
    assert result["cost/crossover_operations"].value == pytest.approx(D, rel=1e-9)
    assert result["cost/crossover_operations"].protocol == {
        "crossing_of": "cost/operations", "by": "length", "against": "Recurrence", "width": D,
    }  # fmt: skip
    assert "cost/crossover_operations" not in costs(AllPairs)
    assert crossover([1, 10, 100], [0.01, 0.1, 10.0]) == pytest.approx(10 * 10**0.5)
    assert crossover([1, 2], [0.5, 0.7]) is None
    assert crossover([1, 2, 4], [4.0, 1.0, 0.25]) == pytest.approx(2.0)


def test_too_few_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least four lengths, widths and depths"):
        LayerCosts(AllPairs, torch.optim.SGD, Constant, **{**SIZES, "widths": [1, 2, 3]})
