"""A naive continuous memory: one row at a time, one token at a time, scores and sums spelled out."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, softplus

from repro.nn import Layout
from repro.nn.attention.continuous.gaussian import uniform


class Row:
    """One sequence that is fed call by call, as the mixer cuts calls into pieces."""

    def __init__(self, mixer: Any) -> None:
        self.mixer, self.long, self.signal = mixer, mixer.long, mixer.long.signal
        self.stays = mixer.memory.mem_len - mixer.block  # tokens that the short-term memory holds
        self.short = mixer.short.init_state(1) if self.stays else None
        self.inputs: list[Tensor] = []  # every token so far
        self.absorbed = self.held = self.draws = (
            0  # tokens taken out of inputs, blocks in the memory, updates
        )
        self.coefficients: Tensor | None = None
        self.attended: Any = None
        self.kl: list[Tensor] = []  # of every query and head of the last call that had a memory

    def call(self, x: Tensor) -> Tensor:
        """Outputs ``(n, D)`` for new tokens ``(n, D)``."""
        self.kl, block = [], self.mixer.block
        # A zero that touches every weight, used or not.
        zero = sum(0.0 * p.sum() for p in self.mixer.parameters())
        result = [self._piece(x[at : at + block]) for at in range(0, len(x), block)]
        return (torch.cat(result) if result else x) + zero

    def aux(self) -> Tensor:
        return self.signal.kl_weight * torch.stack(self.kl).mean() if self.kl else torch.zeros(())

    def _piece(self, x: Tensor) -> Tensor:
        if len(self.inputs) - self.absorbed >= self.stays + self.mixer.block:
            self._absorb(torch.stack(self.inputs[self.absorbed : self.absorbed + self.mixer.block]))
        where = torch.arange(len(self.inputs), len(self.inputs) + len(x))
        mixed = self.mixer.short(
            x[None], self.short, Layout(True, torch.tensor([len(self.inputs)]), None, where)
        )
        self.short = mixed.state
        self.inputs += list(x)
        if self.coefficients is None:
            return mixed.y[0]
        return mixed.y[0] + torch.stack([self._attend(token) for token in x])

    def _absorb(self, block: Tensor) -> None:
        block, past = gated(self.long.gate, block), self.coefficients
        self.absorbed += len(block)
        if self.signal.forget_after and self.held * len(block) >= self.signal.forget_after:
            past, self.held = None, 0
        if past is None:
            self.coefficients = alone(self.signal, block)
        else:
            samples = torch.stack([past.T @ basis(self.signal, t) for t in self._positions()])
            self.coefficients = behind(self.signal, samples, block)
        self.held, self.draws, self.attended = self.held + 1, self.draws + 1, None

    def _positions(self) -> list[float]:
        """Returns the positions at which the past is read."""
        samples = self.signal.samples
        if self.signal.bins is None:
            return [m / samples for m in range(1, samples + 1)]
        mass, result = self.attended.tolist(), []
        for u in uniform(torch.tensor([self.draws]), samples, self.mixer.seed)[0].tolist():
            left, bin_ = u * sum(mass), 0
            while left >= mass[bin_] and bin_ < len(mass) - 1:
                left, bin_ = left - mass[bin_], bin_ + 1
            result.append(bin_ / len(mass))
        return sorted(result)

    def _attend(self, token: Tensor) -> Tensor:
        """Attends with one token; returns ``(D,)``."""
        qkv, heads, width = self.mixer.short.qkv, self.long.n_heads, self.long.d_head
        size = heads * width
        query = linear(token, qkv.weight[:size], None if qkv.bias is None else qkv.bias[:size])
        keys, values = self.long.key(self.coefficients), self.long.value(self.coefficients)
        result = []
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            scores = keys[:, part] @ query[part] / math.sqrt(width)
            mean = torch.sigmoid(self.long.mean.weight[0] @ scores)
            variance = softplus(self.long.spread.weight[0] @ scores).clamp(min=self.signal.least_variance)
            centres, widths = functions(self.signal)
            result.append(normal(mean, centres, variance + widths**2) @ values[:, part])
            self._note(mean, variance)
        return self.long.out(torch.cat(result))

    def _note(self, mean: Tensor, variance: Tensor) -> None:
        sigma, prior = self.signal.kl_sigma, self.signal.kl_mean
        shift = 0 if prior is None else (mean - prior) ** 2 / sigma**2
        self.kl.append((variance / sigma**2 - torch.log(variance / sigma**2) - 1 + shift) / 2)
        if self.signal.bins is None:
            return
        density = torch.distributions.Normal(mean.detach(), variance.detach().sqrt())
        bins = self.signal.bins
        edges = [-1e-6, *(k / bins for k in range(1, bins)), 1 + 1e-6]
        below = [density.cdf(torch.tensor(edge, dtype=mean.dtype)) for edge in edges]
        mass = torch.stack([b - a for a, b in pairwise(below)])
        self.attended = mass if self.attended is None else self.attended + mass


def functions(signal: Any) -> tuple[Tensor, Tensor]:
    """Centre and width of every basis function, ``(N,)`` each."""
    count = signal.basis // len(signal.widths)
    pairs = [(i / (count - 1), width) for i in range(count) for width in signal.widths]
    centres, widths = zip(*pairs, strict=True)
    return torch.tensor(centres, dtype=torch.float64), torch.tensor(widths, dtype=torch.float64)


def normal(x: Any, mean: Tensor, variance: Tensor) -> Tensor:
    """The density of Gaussians."""
    return torch.exp(-((x - mean) ** 2) / (2 * variance)) / torch.sqrt(2 * math.pi * variance)


def basis(signal: Any, t: float) -> Tensor:
    """Every basis function at one position, ``(N,)``."""
    centres, widths = functions(signal)
    return normal(t, centres, widths**2)


def ridge(signal: Any, positions: Sequence[float], values: Tensor) -> Tensor:
    """Coefficients ``(N, D)`` of values ``(P, D)``, by the normal equations."""
    table = torch.stack([basis(signal, t) for t in positions])
    return torch.linalg.solve(
        table.T @ table + signal.ridge * torch.eye(signal.basis).double(), table.T @ values
    )


def surrounded(signal: Any, positions: list[float], values: Tensor, outside: list[float]) -> Tensor:
    """Pads values with half as many zeros on either side."""
    half = len(positions) // 2
    before, behind_ = outside[:half], outside[len(outside) - half :]
    zeros = values.new_zeros(half, values.shape[1])
    return ridge(signal, before + positions + behind_, torch.cat([zeros, values, zeros]))


def alone(signal: Any, block: Tensor) -> Tensor:
    """Coefficients of a block that fills [0, 1]."""
    n = len(block)
    inside = [(i + 0.5) / n for i in range(n)]
    outside = [(i + 0.5) / n for i in range(-(n // 2), 0)] + [(n + i + 0.5) / n for i in range(n // 2)]
    return surrounded(signal, inside, block, outside)


def behind(signal: Any, samples: Tensor, block: Tensor) -> Tensor:
    """Coefficients of a block behind samples of the past."""
    m, n, tau = len(samples), len(block), signal.tau
    inside = [tau * k / m for k in range(1, m + 1)] + [tau + (1 - tau) * k / n for k in range(1, n + 1)]
    shift, points = 1 / (2 * n + m), 2 * (m + n)
    step = (2 - 2 * shift) / (points - 1)
    outside = [-0.5 + shift + i * step for i in range(points)]
    return surrounded(signal, inside, torch.cat([samples, block]), outside)


def gated(conv: Any, block: Tensor) -> Tensor:
    """``sigmoid(conv(x)) x`` over the token before, the token and the one behind it."""
    result = []
    for i in range(len(block)):
        total = conv.bias
        for k, j in enumerate((i - 1, i, i + 1)):
            if 0 <= j < len(block):
                total = total + conv.weight[:, :, k] @ block[j]
        result.append(torch.sigmoid(total) * block[i])
    return torch.stack(result)


def continuous(
    mixer: Any, x: Tensor, causal: bool, lengths: Tensor | None, past: Sequence[Tensor] | None
) -> Tensor:
    """A naive loop with the arguments of :func:`tests.nn.reference.self_attention`; the past was fed in one call."""
    assert causal
    result = []
    for b, tokens in enumerate(x):
        row = Row(mixer)
        if past is not None:
            row.call(past[b])
        n = len(tokens) if lengths is None else int(lengths[b])
        y = row.call(tokens[:n])
        result.append(torch.cat([y, tokens.new_zeros(len(tokens) - n, tokens.shape[1])]))
    return torch.stack(result)
