"""The position-wise feed-forward layer."""

from collections.abc import Callable

from torch import Tensor, nn

from repro.nn.dropout import Dropout
from repro.nn.mixer import Layout, Mixed, State


class FeedForward(nn.Module):
    """``activation(x W₁ + b₁) W₂ + b₂``; a mixer that mixes nothing, so that it fits a :class:`Sublayer`.

    Args:
        d_model: D.
        d_ff: F.
        activation: maker of the non-linearity.
        dropout: after the activation, in [0, 1).
        bias: biases in both projections.

    Source: Vaswani et al. 2017, section 3.3, equation 2.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Callable[[], nn.Module] = nn.ReLU,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.activation = activation()
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model, bias=bias)

    def init_state(self, batch: int, capacity: int | None = None) -> State:
        return None

    def forward(self, x: Tensor, state: State, layout: Layout) -> Mixed:
        """Applies itself to every token of ``x (B, T, D)``."""
        return Mixed(self.outer(self.dropout(self.activation(self.inner(x)))), state)
