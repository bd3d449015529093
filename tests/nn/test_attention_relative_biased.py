"""Relative attention through the fused kernel equals the tiles in outputs and gradients."""

import pytest
import torch

from repro.nn.attention.relative.biased import attend_with_bias
from repro.nn.attention.relative.shift import Sight, attend_by_distance

HEADS, ROWS, WIDTH, PLACE = 2, 3, 4, 6


@pytest.mark.parametrize("steps", [1, 7, 63])
@pytest.mark.parametrize("memory", [0, 5])
@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_it_equals_the_tiles(steps: int, memory: int, window: int | None, masked: bool) -> None:
    torch.manual_seed(0)
    size = memory + steps
    shapes = [
        (HEADS, ROWS, n, width) for n, width in ((steps, WIDTH), (size, WIDTH), (size, WIDTH), (steps, PLACE))
    ]
    given = [torch.randn(shape, dtype=torch.float64) for shape in [*shapes, (HEADS, size, PLACE)]]
    mask = torch.arange(memory) >= torch.tensor([[0], [2], [memory]]) if masked else None
    result = []
    for fused in (False, True):
        inputs = [t.clone().requires_grad_() for t in given]
        if fused:
            y = attend_with_bias(*inputs, mask, window, 0.3, 0.0)
        else:
            y = attend_by_distance(*inputs, Sight(mask, window), 0.3)
        (y * torch.arange(y.numel()).view_as(y).cos()).sum().backward()
        result.append([y.detach(), *(t.grad for t in inputs)])
    for one, other in zip(*result, strict=True):
        assert one is not None
        assert other is not None
        assert float((one - other).abs().max()) < 1e-12
