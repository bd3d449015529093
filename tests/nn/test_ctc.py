"""CTC: its likelihood is the sum over all paths, one by one, and decoding reads the best one."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from repro.nn import CtcHead

D, V, T = 3, 3, 5
LENGTHS = torch.tensor([5, 4, 5, 1])
TARGETS = torch.tensor([[1, 2, 1], [2, 2, -1], [2, -1, -1], [1, -1, -1]])


def head() -> CtcHead:
    torch.manual_seed(0)
    made = CtcHead(D, V).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


def hidden() -> Tensor:
    return torch.randn(4, T, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def collapsed(path: tuple[int, ...], keep_repeats: bool = False) -> list[int]:
    """Collapses a path: repeats once, then no blanks."""
    once = [a for i, a in enumerate(path) if keep_repeats or i == 0 or a != path[i - 1]]
    return [a for a in once if a]


def by_hand(logits: Tensor, length: int, wanted: list[int], keep_repeats: bool = False) -> float:
    """``-log`` of the sum over every path of ``length`` classes that says what is wanted."""
    probs = torch.softmax(logits[:length], -1).tolist()
    total = 0.0
    for path in itertools.product(range(V), repeat=length):
        if collapsed(path, keep_repeats) == wanted:
            total += math.prod(probs[t][a] for t, a in enumerate(path))
    return -math.log(total)


def test_the_likelihood_is_the_sum_over_all_paths() -> None:
    made, x = head(), hidden()
    result = made.nll(x, LENGTHS, TARGETS).detach()
    assert (result.shape, result.dtype) == ((4,), torch.float64)
    for row in range(4):
        expected = [i for i in TARGETS[row].tolist() if i >= 0]
        logits, length = made.logits(x)[row], int(LENGTHS[row])
        assert float(result[row]) == pytest.approx(by_hand(logits, length, expected), rel=1e-12)
        if row < 3:
            wrong = by_hand(logits, length, expected, keep_repeats=True)
            assert abs(float(result[row]) - wrong) > 1e-2, "else repeats would not matter here"


def test_padding_does_not_matter() -> None:
    made, x = head(), hidden().requires_grad_()
    loss = made.nll(x, LENGTHS, TARGETS)
    (gradient,) = torch.autograd.grad(loss.sum(), x)
    other = x.detach().clone()
    other[1, 4:], other[3, 1:] = 7.0, -7.0
    wider = torch.cat([TARGETS, torch.full((4, 2), -1)], dim=1)
    assert torch.equal(made.nll(other, LENGTHS, wider), loss.detach())
    assert not gradient[1, 4:].any()
    assert not gradient[3, 1:].any()
    assert bool(gradient[0].abs().sum(-1).gt(0).all())


def test_a_row_too_short_for_its_targets_has_no_likelihood() -> None:
    made = head()
    pair = torch.tensor([[2, 2]])
    assert math.isinf(made.nll(hidden()[:1], torch.tensor([2]), pair)[0])
    assert math.isfinite(made.nll(hidden()[:1], torch.tensor([3]), pair)[0])


def test_half_precision_is_scored_in_single() -> None:
    made, x = head().to(torch.bfloat16), hidden().to(torch.bfloat16)
    result = made.nll(x, LENGTHS, TARGETS).detach()
    assert result.dtype == torch.float32
    exact = [by_hand(made.logits(x)[2].double(), 5, [2])]
    assert float(result[2]) == pytest.approx(exact[0], rel=1e-5)


def test_decoding_reads_the_likeliest_class_of_each_frame() -> None:
    made = CtcHead(3, 3)
    with torch.no_grad():
        made.proj.weight.copy_(torch.eye(3))
        made.proj.bias.zero_()
    paths = [[1, 1, 0, 1, 2, 2], [0, 0, 0, 0, 1, 1], [2, 1, 2, 2, 2, 0], [1, 2, 2, 2, 2, 2]]
    x = torch.nn.functional.one_hot(torch.tensor(paths), 3).float()
    lengths = torch.tensor([6, 4, 6, 1])
    assert made.decode(x, lengths) == [[1, 1, 2], [], [2, 1, 2], [1]]
    expected = [collapsed(tuple(path[:n])) for path, n in zip(paths, lengths.tolist(), strict=True)]
    assert made.decode(x, lengths) == expected
    assert made.decode(x, torch.full((4,), 6))[3] == [1, 2], "lengths are looked at"


def test_a_head_needs_something_to_say() -> None:
    with pytest.raises(ValueError, match=r"n_classes.*2,.*1"):
        CtcHead(4, 1)
