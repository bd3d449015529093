"""Bare layers against plain loops, and how far each sees."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d

from repro.nn.connections import AllPairs, Connection, Convolution, NearPairs, Recurrence

D, N = 4, 7
MAKERS: dict[str, Any] = {
    "all": AllPairs,
    "near": partial(NearPairs, reach=2),
    "recurrent": Recurrence,
    "convolution": partial(Convolution, kernel=3),
}


def made(name: str, **settings: Any) -> Connection:
    torch.manual_seed(0)
    layer: Connection = MAKERS[name](D, **settings).double()
    return layer


def vectors(steps: int = N) -> Tensor:
    return torch.randn(2, steps, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def weighted(x: Tensor, t: int, seen: list[int]) -> Tensor:
    scores = torch.stack([x[t] @ x[s] / math.sqrt(D) for s in seen])
    return sum(
        (w * x[s] for w, s in zip(scores.softmax(0), seen, strict=True)), torch.zeros(D, dtype=x.dtype)
    )


def loop(name: str, layer: Any, x: Tensor) -> Tensor:
    """One row, place by place."""
    steps, rows = len(x), []
    state = torch.zeros(D, dtype=x.dtype)
    for t in range(steps):
        if name == "all":
            rows.append(weighted(x, t, list(range(steps))) * layer.gain)
        elif name == "near":
            rows.append(weighted(x, t, [s for s in range(steps) if abs(s - t) <= 2]) * layer.gain)
        elif name == "recurrent":
            state = torch.tanh(x[t] @ layer.from_input + state @ layer.from_state)
            rows.append(state)
        else:
            taps = [(k, t + (k - 1) * layer.dilation) for k in range(3)]
            rows.append(sum(layer.weight[:, :, k] @ x[s] for k, s in taps if 0 <= s < steps))  # type: ignore[arg-type]
    return torch.stack(rows)


@pytest.mark.parametrize("steps", [1, 2, N, 13])
@pytest.mark.parametrize("name", MAKERS)
def test_every_layer_is_its_loop_in_outputs_and_gradients(name: str, steps: int) -> None:
    layer, x = made(name), vectors(steps).requires_grad_()
    whole = layer(x)
    apart = torch.stack([loop(name, layer, row) for row in x])
    assert float((whole - apart).detach().abs().max()) < 1e-12
    weight = torch.randn(whole.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(2))
    inputs = [x, *layer.parameters()]
    ours, official = (torch.autograd.grad((y * weight).sum(), inputs) for y in (whole, apart))
    for a, b in zip(ours, official, strict=True):
        assert float((a - b).abs().max()) < 1e-11


def test_a_deeper_convolution_spreads_with_the_same_weights() -> None:
    layer = made("convolution")
    spread = [layer.deeper(depth, 30).dilation for depth in range(6)]  # type: ignore[attr-defined]
    assert spread == [1, 3, 9, 27, 1, 3]
    x = vectors(12)
    wide = conv1d(x.transpose(1, 2), layer.weight, padding=9, dilation=9).transpose(1, 2)  # type: ignore[arg-type]
    assert torch.equal(layer.deeper(2, 30)(x), wide)
    for name in ("all", "near", "recurrent"):
        other = made(name)
        assert other.deeper(3, 30) is other


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kernel.*4"):
        Convolution(D, kernel=4)
