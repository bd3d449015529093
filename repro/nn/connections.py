"""Four minimal ways to connect the positions of a sequence: layers to compare, not to build networks from.

Each turns ``(B, n, d)`` into ``(B, n, d)`` and sees both sides. None has projections, so that its
cost is that of connecting alone; self-attention trains only a gain for each channel.

Source: Vaswani et al. 2017, section 4, table 1.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad


class Connection(nn.Module, ABC):
    """A layer of table 1."""

    def deeper(self, depth: int, steps: int) -> "Connection":
        """The layer at this depth of a stack of these over ``steps`` positions; for most, the same at every depth."""
        return self

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """``(B, n, d)`` to ``(B, n, d)``."""


class AllPairs(Connection):
    """Self-attention: ``softmax(x xᵀ / sqrt(d)) x``; n² d twice.

    Args:
        d_model: d.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.bmm(x, x.transpose(1, 2)) / math.sqrt(x.shape[-1])
        return torch.bmm(scores.softmax(-1), x) * self.gain


class NearPairs(Connection):
    """Self-attention restricted to the ``reach`` places before and the ``reach`` behind; r n d twice, r = 2 reach + 1.

    Args:
        d_model: d.
        reach: places on either side.
    """

    def __init__(self, d_model: int, reach: int = 8) -> None:
        super().__init__()
        self.reach = reach
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        rows, steps, width = x.shape
        size = 2 * self.reach + 1
        near = pad(x, (0, 0, self.reach, self.reach)).unfold(1, size, 1)  # (B, n, d, r)
        near = near.reshape(rows * steps, width, size)
        scores = torch.bmm(x.reshape(rows * steps, 1, width), near) / math.sqrt(width)
        place = (
            torch.arange(steps, device=x.device)[:, None] + torch.arange(size, device=x.device) - self.reach
        )
        outside = ((place < 0) | (place >= steps)).repeat(rows, 1)[:, None]
        weights = scores.masked_fill(outside, -math.inf).softmax(-1)
        return torch.bmm(near, weights.transpose(1, 2)).view(rows, steps, width) * self.gain


class Recurrence(Connection):
    """A recurrent layer, one place after another: ``h_t = tanh(x_t W + h_{t-1} U)``; n d² twice.

    Args:
        d_model: d.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.from_input = nn.Parameter(torch.empty(d_model, d_model))
        self.from_state = nn.Parameter(torch.empty(d_model, d_model))
        for weight in self.parameters():
            nn.init.orthogonal_(weight)

    def forward(self, x: Tensor) -> Tensor:
        state, states = torch.zeros_like(x[:, 0]), []
        for now in (x @ self.from_input).unbind(1):
            state = torch.tanh(now + state @ self.from_state)
            states.append(state)
        return torch.stack(states, dim=1)


class Convolution(Connection):
    """A convolutional layer; k n d².

    Args:
        d_model: d.
        kernel: k, odd.
        dilation: places from one that is read to the next; a deeper layer of a stack has k times that of the one below,
            until that is longer than the sequence; then they begin anew.

    Raises:
        ValueError: ``kernel`` is even.
    """

    def __init__(self, d_model: int, kernel: int = 3, dilation: int = 1) -> None:
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, with as many positions before as after, not {kernel}")
        self.dilation = dilation
        self.weight = nn.Parameter(torch.empty(d_model, d_model, kernel))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def deeper(self, depth: int, steps: int) -> "Convolution":
        width, _, kernel = self.weight.shape
        spread = [self.dilation]
        while spread[-1] * kernel < steps:
            spread.append(spread[-1] * kernel)
        layer = Convolution(width, kernel, spread[depth % len(spread)])
        layer.weight = self.weight
        return layer

    def forward(self, x: Tensor) -> Tensor:
        reach = self.weight.shape[-1] // 2 * self.dilation
        return conv1d(x.transpose(1, 2), self.weight, padding=reach, dilation=self.dilation).transpose(1, 2)
