"""A recurrent mixer: the LSTM with layer norms inside its cell."""

import math

import torch
from torch import Tensor, nn

from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings


class UnbiasedNorm(nn.LayerNorm):
    """Layer norm over the last axis with the unbiased variance.

    Args:
        width: of the last axis.
        eps: added to the variance.
        neutral: gain 1 and bias 0; otherwise both begin at ``U(-1/sqrt(width), 1/sqrt(width))``.

    Source: the LSTM baseline of Lu et al. 2021, code; the uniform beginning starves the cell of signal.
    """

    def __init__(self, width: int, eps: float = 1e-6, neutral: bool = False) -> None:
        super().__init__(width, eps)
        if not neutral:
            bound = 1.0 / math.sqrt(width)
            nn.init.uniform_(self.weight, -bound, bound)
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Returns ``(..., width)`` unchanged."""
        variance, mean = torch.var_mean(x, dim=-1, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + self.eps) * self.weight + self.bias


class NormedLSTM(nn.Module):
    """An LSTM layer that norms its two pre-activation sums and its cell: ``c = norm(f c + i g)``, ``h = o tanh(c)``.

    State: ``h (B, D)`` and ``c (B, D)``. Without one a sequence begins at zero; in training at ``N(0, 1/D)``, drawn
    anew each time.

    Args:
        d_model: D, width of the input and of the state.
        dropout: on ``h``, on its way out and to the next step alike, in [0, 1).
        neutral_norms: norms begin at gain 1 and bias 0; see :class:`UnbiasedNorm`.

    Source: Ba et al. 2016, as in the LSTM baseline of Lu et al. 2021 (table 3, code).
    Deviation: in evaluation the code's first state is random, too; ours is zero, so that a score can be repeated.
    """

    def __init__(self, d_model: int, dropout: float = 0.0, neutral_norms: bool = False) -> None:
        super().__init__()
        self.from_input = nn.Linear(d_model, 4 * d_model)
        self.from_state = nn.Linear(d_model, 4 * d_model)
        self.input_norm = UnbiasedNorm(4 * d_model, neutral=neutral_norms)
        self.state_norm = UnbiasedNorm(4 * d_model, neutral=neutral_norms)
        self.cell_norm = UnbiasedNorm(d_model, neutral=neutral_norms)
        self.dropout = nn.Dropout(dropout)
        self.d_model = d_model

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        zeros = self.from_state.weight.new_zeros(batch, self.d_model)
        return {"h": zeros, "c": zeros.clone()}

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Reads ``x (B, T, D)`` token by token.

        Raises:
            ValueError: the layout is not causal.
        """
        if not layout.causal:
            raise ValueError("an LSTM reads from left to right: its layout must be causal")
        past = self._begin(x) if state is None else state
        h, c = past["h"], past["c"]
        outputs = []
        for t, projected in enumerate(self.input_norm(self.from_input(x)).unbind(1)):
            new = self._step(projected, h, c)
            outputs.append(new[0])
            if state is None or layout.lengths is None:
                h, c = new
            else:  # padding leaves the state alone
                valid = (layout.lengths > t)[:, None]
                h, c = (torch.where(valid, a, b) for a, b in zip(new, (h, c), strict=True))
        return MixerOutput(torch.stack(outputs, dim=1), None if state is None else {"h": h, "c": c})

    def _begin(self, x: Tensor) -> State:
        if not self.training:
            return self.init_state(len(x))
        std = 1.0 / math.sqrt(self.d_model)  # Glorot's for D inputs and D outputs
        return {name: torch.randn_like(x[:, 0]) * std for name in ("h", "c")}

    def _step(self, projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the state after one token; ``projected (B, 4 D)`` comes from the input."""
        sums = projected + self.state_norm(self.from_state(h))
        gates, proposed = sums.split([3 * self.d_model, self.d_model], dim=-1)
        enter, keep, leave = gates.sigmoid().chunk(3, dim=-1)
        c = self.cell_norm(keep * c + enter * proposed.tanh())
        return self.dropout(leave * c.tanh()), c
