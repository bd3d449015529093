"""The position-wise feed-forward layer."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from repro.nn.idle import applied
from repro.nn.mixer import Layout, MixerOutput, State, Stateless


class FeedForward(Stateless):
    """``activation(x W₁ + b₁) W₂ + b₂``; a mixer that mixes nothing, so that it fits a :class:`Sublayer`.

    Args:
        d_model: D.
        d_ff: F.
        activation: maker of the non-linearity.
        dropout: after the activation, in [0, 1).
        bias: biases in both projections.
        chunk: tokens of a row to which it is applied at a time, so that ``(B, chunk, F)`` is the largest tensor there
            ever is: with a gradient, a chunk's is computed again in the backward pass. None takes all at once.
        output_dropout: on the output, in [0, 1).

    Raises:
        ValueError: a chunk below 1.

    Source: Vaswani et al. 2017, section 3.3, equation 2; chunks: Kitaev et al. 2020, section 3.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Callable[[], nn.Module] = nn.ReLU,
        dropout: float = 0.0,
        bias: bool = True,
        chunk: int | None = None,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk must be at least 1, not {chunk}")
        self.chunk = chunk
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.activation = activation()
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        self.output_dropout = nn.Dropout(output_dropout)

    def pieces(self, steps: int) -> list[slice]:
        """The tokens of each chunk; without a backward pass it is called once for each."""
        size = self.chunk or max(steps, 1)
        return [slice(begin, begin + size) for begin in range(0, steps, size)] or [slice(0, 0)]

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Applies itself to every token of ``x (B, T, D)``."""
        # Without chunks the length is not looked at, so that a compiled graph serves every length.
        if self.chunk is None or x.shape[1] <= self.chunk:
            return MixerOutput(self._piece(x), state)
        once = (
            partial(checkpoint, self._piece, use_reentrant=False) if torch.is_grad_enabled() else self._piece
        )
        return MixerOutput(torch.cat([once(x[:, piece]) for piece in self.pieces(x.shape[1])], 1), state)

    def _piece(self, x: Tensor) -> Tensor:
        y = self.outer(applied(self.dropout, self.activation(self.inner(x))))
        return applied(self.output_dropout, y)
