"""Optimisers whose settings depend on a parameter's updates, against loops over tensors like the official ones."""

import io
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from repro.tasks import EpsilonHatAdam, RatesByName, WaitingRAdam

BETAS = (0.9, 0.98)
EPSILON = 1e-3  # large enough to show
DECAY = 0.1
UPDATES = 12
Gradients = Sequence[Sequence[Tensor | None]]
Rule = Callable[[Tensor, Tensor, int], tuple[float, Tensor]]


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in ((3, 2), (4,), (2, 2))]


def gradients() -> Gradients:
    """The second tensor has none in the first two updates, the third none in every other one."""
    torch.manual_seed(1)
    rows: list[list[Tensor | None]] = []
    for update in range(UPDATES):
        given = [torch.randn_like(p) / 100 for p in parameters()]
        rows.append([given[0], None if update < 2 else given[1], None if update % 2 else given[2]])
    return rows


def adam(first: Tensor, second: Tensor, update: int) -> tuple[float, Tensor]:
    """The share of the rate and the direction, as fairseq's optim/adam.py has them."""
    corrections = [1 - beta**update for beta in BETAS]
    return math.sqrt(corrections[1]) / corrections[0], first / (second.sqrt() + EPSILON)


def radam(first: Tensor, second: Tensor, update: int) -> tuple[float, Tensor]:
    """Computes updates as Admin's radam_fairseq/radam.py does."""
    power = BETAS[1] ** update
    most = 2 / (1 - BETAS[1]) - 1
    length = most - 2 * update * power / (1 - power)
    if length < 5:
        return 0.0, torch.zeros_like(first)
    factor = (1 - power) * (length - 4) / (most - 4) * (length - 2) * most / length / (most - 2)
    return math.sqrt(factor) / (1 - BETAS[0] ** update), first / (second.sqrt() + EPSILON)


def naive(rule: Rule, rates: Sequence[float], given: Gradients) -> list[Tensor]:
    """Weights after all updates, tensor by tensor."""
    results = []
    for place, parameter in enumerate(parameters()):
        weight, update = parameter.detach().clone(), 0
        first, second = torch.zeros_like(weight), torch.zeros_like(weight)
        for row in given:
            gradient = row[place]
            if gradient is None:
                continue
            update += 1
            first = BETAS[0] * first + (1 - BETAS[0]) * gradient
            second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
            share, direction = rule(first, second, update)
            weight = weight - DECAY * rates[place] * weight - rates[place] * share * direction
        results.append(weight)
    return results


def make(kind: type[Any], given: Any, **more: Any) -> Optimizer:
    made: Optimizer = kind(given, lr=0.01, betas=BETAS, eps=EPSILON, weight_decay=DECAY, **more)
    return made


def update(optimizer: Optimizer, given: list[nn.Parameter], rows: Gradients) -> None:
    for row in rows:
        for parameter, gradient in zip(given, row, strict=True):
            parameter.grad = None if gradient is None else gradient.clone()
        optimizer.step()


KINDS = pytest.mark.parametrize(("kind", "rule"), [(EpsilonHatAdam, adam), (WaitingRAdam, radam)])


@pytest.mark.parametrize("foreach", [False, True])
@KINDS
def test_updates_are_those_of_the_loop(kind: type[Any], rule: Rule, foreach: bool) -> None:
    given = parameters()
    maker = RatesByName(partial(make, kind), {"c": 0.05})
    optimizer = maker(maker.groups(dict(zip(("net.a.w", "net.b.w", "net.c.w"), given, strict=True))))
    for group in optimizer.param_groups:
        group["foreach"] = foreach
    update(optimizer, given, gradients())
    for ours, expected in zip(given, naive(rule, (0.01, 0.01, 0.05), gradients()), strict=True):
        torch.testing.assert_close(ours.detach(), expected, rtol=0, atol=1e-14)
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 1]
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, 0.05]
    assert {group["eps"] for group in optimizer.param_groups} == {EPSILON}


@KINDS
def test_torchs_own_goes_another_way(kind: type[Any], rule: Rule) -> None:
    given, other = parameters(), getattr(torch.optim, kind.__bases__[1].__name__)
    update(make(other, given, decoupled_weight_decay=True), given, gradients())
    pairs = zip(given, naive(rule, (0.01,) * 3, gradients()), strict=True)
    assert all((ours - official).abs().max() > 1e-5 for ours, official in pairs)


@KINDS
@pytest.mark.parametrize("saved", [0, 1, 4, 6])
def test_a_restored_state_goes_on_bit_by_bit(kind: type[Any], rule: Rule, saved: int) -> None:
    whole, parts, rows = parameters(), parameters(), gradients()
    update(make(kind, whole), whole, rows)
    optimizer = make(kind, parts)
    update(optimizer, parts, rows[:saved])
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    again = make(kind, parts)
    again.load_state_dict(torch.load(file))
    update(again, parts, rows[saved:])
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


@KINDS
def test_a_closure_sees_the_groups_and_gives_its_loss(kind: type[Any], rule: Rule) -> None:
    given, other = parameters(), parameters()
    optimizer, rows = make(kind, given), gradients()

    def closure(row: Sequence[Tensor | None]) -> float:
        assert torch.is_grad_enabled()
        assert len(optimizer.param_groups) == 1
        for parameter, gradient in zip(given, row, strict=True):
            parameter.grad = gradient
        return 3.0

    for row in rows:
        assert optimizer.step(partial(closure, row)) == 3.0
    update(make(kind, other), other, rows)
    assert all(torch.equal(a, b) for a, b in zip(given, other, strict=True))


def test_groups_are_whole_again_behind_an_error() -> None:
    given = parameters()
    optimizer = make(EpsilonHatAdam, given)
    groups = optimizer.param_groups
    given[0].grad = torch.ones(3, 2, dtype=torch.float64).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()
    assert optimizer.param_groups is groups


def test_a_decay_with_which_nothing_would_move_is_refused() -> None:
    with pytest.raises(ValueError, match=r"betas.*0\.5"):
        WaitingRAdam(parameters(), betas=(0.9, 0.5))
