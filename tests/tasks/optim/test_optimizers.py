"""Every tensor's gradient is clipped by itself before torch's own update."""

import pytest
import torch
from torch import Tensor, nn

from repro.nn import FusedLinear
from repro.tasks import ClippedRAdam, Constant
from repro.tasks.costs.operations import OperationCounter
from repro.tasks.optim.optimizers import clip_each, multiply_together
from repro.tasks.task import Task


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [
        nn.Parameter(torch.randn(3, 2, dtype=torch.float64)),
        nn.Parameter(torch.randn(4, dtype=torch.float64)),
    ]


def stepped(optimizer: torch.optim.Optimizer, given: list[nn.Parameter], grads: list[list[Tensor]]) -> None:
    for one in grads:
        for parameter, grad in zip(given, one, strict=True):
            parameter.grad = grad.clone()
        optimizer.step()


def gradients(steps: int = 12) -> list[list[Tensor]]:
    """Long ones of the first tensor, short ones of the second."""
    torch.manual_seed(1)
    made = [
        [torch.randn(3, 2, dtype=torch.float64) * 9, torch.randn(4, dtype=torch.float64) / 9]
        for _ in range(steps)
    ]
    assert all(long.norm() > 1 > short.norm() for long, short in made)
    return made


def test_a_long_gradient_is_shortened_to_one_and_a_short_one_left() -> None:
    ours, official = parameters(), parameters()
    stepped(ClippedRAdam(ours, lr=0.1), ours, gradients())
    plain = torch.optim.RAdam(official, lr=0.1, weight_decay=0.01, decoupled_weight_decay=True)
    stepped(plain, official, [[long / long.norm(), short] for long, short in gradients()])
    for a, b in zip(ours, official, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=0)  # torch adds 1e-6 to a norm


def test_tensors_multiplied_together_are_those_multiplied_one_by_one() -> None:
    """As a GPU clips; on the meta device it is seen that launches do not grow with the number of tensors."""
    sizes, factors = [(3, 2), (4,), (1, 5)], torch.tensor([0.5, 1.0, 2.0])
    given = [torch.randn(size) for size in sizes]
    expected = [one * factor for one, factor in zip(given, factors, strict=True)]
    multiply_together(given, factors)
    assert all(map(torch.equal, given, expected))
    counts = []
    for times in (1, 10):
        with OperationCounter() as counter:
            clip_each([torch.empty(size, device="meta") for size in sizes * times], 1.0)
        counts.append(counter.operations.total())
    assert counts[0] == counts[1] < 12


def test_told_parts_of_a_tensor_are_clipped_apart() -> None:
    together, apart = parameters(), parameters()
    whole = nn.Parameter(torch.cat([p.detach().flatten() for p in together]))
    optimizer = ClippedRAdam([whole], lr=0.1)
    optimizer.clip_apart({whole: [6, 4]})
    stepped(optimizer, [whole], [[torch.cat([g.flatten() for g in grads])] for grads in gradients()])
    stepped(ClippedRAdam(apart, lr=0.1), apart, gradients())
    torch.testing.assert_close(whole, torch.cat([p.flatten() for p in apart]), rtol=1e-12, atol=0)
    stepped(ClippedRAdam([whole], lr=0.1), [whole], [[torch.ones(10, dtype=torch.float64)]])
    assert whole.grad is not None
    torch.testing.assert_close(float(whole.grad.norm()), 1.0, rtol=1e-5, atol=0)  # not told: one tensor


def test_a_task_tells_the_parts_and_a_checkpoint_does_not_change_them() -> None:
    def new() -> tuple[Task, torch.optim.Optimizer]:
        torch.manual_seed(0)
        task = Task(nn.Sequential(FusedLinear(4, [3, 2]), nn.Linear(5, 1)).double(), ClippedRAdam, Constant)
        return task, task.make_optimizer()

    task, optimizer = new()
    weight = task.module.get_parameter("0.weight")

    def clipped(task: Task, optimizer: torch.optim.Optimizer) -> list[float]:
        for parameter in task.parameters():
            parameter.grad = torch.full_like(parameter, 2.0)
        optimizer.step()
        grad = task.module.get_parameter("0.weight").grad
        assert grad is not None
        return [float(part.norm()) for part in grad.split([3, 2])]

    first = clipped(task, optimizer)
    assert first == pytest.approx([1.0, 1.0], rel=1e-5)
    other, resumed = new()
    other.load_state_dict(task.state_dict())
    resumed.load_state_dict(optimizer.state_dict())
    assert clipped(other, resumed) == clipped(task, optimizer) == first
    assert torch.equal(other.module.get_parameter("0.weight"), weight)


def test_the_decay_is_decoupled() -> None:
    [first, _] = given = parameters()
    before = first.detach().clone()
    stepped(ClippedRAdam(given, lr=0.1, weight_decay=0.5), given, [[torch.zeros_like(p) for p in given]])
    torch.testing.assert_close(first.detach(), before * (1 - 0.1 * 0.5))


def test_a_closure_is_called_with_gradients() -> None:
    [first, _] = given = parameters()

    def closure() -> float:
        first.grad = None
        loss = (first**2).sum()
        loss.backward()
        return float(loss.detach())

    before = float((first.detach() ** 2).sum())
    assert ClippedRAdam(given, lr=0.1).step(closure) == before
    assert float((first.detach() ** 2).sum()) < before


def test_a_norm_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"max_norm.*0, not 0"):
        ClippedRAdam(parameters(), max_norm=0)
