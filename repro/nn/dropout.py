"""Dropout. On a CPU its masks are drawn four numbers at a time, which takes a third of the time."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

_STEPS = 1 << 16


class Dropout(nn.Dropout):
    """:class:`torch.nn.Dropout`, faster on a CPU; see :func:`dropout`. In place is not for it."""

    def forward(self, x: Tensor) -> Tensor:
        """``x`` of any shape."""
        return dropout(x, self.p) if self.training else x


def dropout(x: Tensor, p: float) -> Tensor:
    """Zeroes entries at random and divides the others by ``1 - p``.

    Deviation: on a CPU the probability is ``p`` rounded to 1/65,536.
    """
    if p in (0.0, 1.0) or x.device.type != "cpu":
        return functional.dropout(x, p)
    return x * kept(x, p)


def kept(like: Tensor, p: float) -> Tensor:
    """0 with probability ``p``, else ``1 / (1 - p)``, in the shape and dtype of a tensor on the CPU."""
    dropped = min(round(p * _STEPS), _STEPS - 1)
    if dropped == 0:
        return torch.ones_like(like)
    size = math.prod(like.shape)
    # Drawing 64 bits costs as much as drawing one number in [0, 1).
    words = torch.empty(-(-size // 4), dtype=torch.int64).random_(-(1 << 63), None)
    drawn = words.view(torch.int16)[:size].view(like.shape)
    first = dropped - _STEPS // 2  # the smallest number that is kept
    # 0 or 1 by clamping: a comparison, whose result is boolean, takes three times as long
    return drawn.clamp(first - 1, first).sub_(first - 1).to(like.dtype).mul_(_STEPS / (_STEPS - dropped))
