"""The naive loop of the recurrent mixer: one row, one token, one gate at a time."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from repro.nn import NormedLSTM
from tests.nn.reference import project, row_length


def lstm(
    mixer: NormedLSTM,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """``c = norm(f c + i g)``, ``h = o tanh(c)`` from zero; see :func:`tests.nn.reference.self_attention`."""
    assert causal
    outputs = []
    for b in range(x.shape[0]):
        new = x[b, : row_length(x, lengths, b)]
        old = x.new_zeros(0, x.shape[2]) if past is None else past[b]
        h = c = x.new_zeros(mixer.d_model)
        rows = []
        for token in torch.cat([old, new]):
            h, c = _token(mixer, token, h, c)
            rows.append(h)
        padding = [torch.zeros_like(x[b, 0])] * (x.shape[1] - len(new))
        outputs.append(torch.stack(rows[len(old) :] + padding))
    return torch.stack(outputs)


def _token(mixer: NormedLSTM, token: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The gates lie in the order i, f, o, and behind them g."""
    d = mixer.d_model
    from_input = unbiased_norm(_all_gates(mixer.from_input, token, d), mixer.input_norm)
    from_state = unbiased_norm(_all_gates(mixer.from_state, h, d), mixer.state_norm)
    i, f, o, g = (from_input[n * d : (n + 1) * d] + from_state[n * d : (n + 1) * d] for n in range(4))
    c = unbiased_norm(_sigmoid(f) * c + _sigmoid(i) * torch.tanh(g), mixer.cell_norm)
    return _sigmoid(o) * torch.tanh(c), c


def _all_gates(layer: nn.Linear, vector: Tensor, d: int) -> Tensor:
    return torch.cat([project(layer, vector[None], gate * d, d)[0] for gate in range(4)])


def _sigmoid(x: Tensor) -> Tensor:
    return 1.0 / (1.0 + (-x).exp())


def unbiased_norm(x: Tensor, norm: nn.LayerNorm, eps: float = 1e-6) -> Tensor:
    """One vector ``(N,)``: the sum of squares is divided by N - 1."""
    n = len(x)
    mean = x.sum() / n
    variance = ((x - mean) ** 2).sum() / (n - 1)
    return (x - mean) / (variance + eps) ** 0.5 * norm.weight + norm.bias
