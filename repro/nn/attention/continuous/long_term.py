"""The weights of a continuous memory: its update with a block of tokens, and attention to it."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from repro.nn.attention.continuous.gaussian import expectation
from repro.nn.attention.continuous.regression import fit, functions
from repro.nn.attention.continuous.signal import ContinuousSignal
from repro.nn.device import without_autocast


class Read(NamedTuple):
    """The result of queries to a continuous memory.

    Attributes:
        y: ``(B, T, D)``.
        mean: of each query's density over [0, 1], ``(B, H, T)``.
        variance: of the same, ``(B, H, T)``.
    """

    y: Tensor
    mean: Tensor
    variance: Tensor


class LongTermMemory(nn.Module):
    """A past as coefficients ``(B, N, D)`` of basis functions on [0, 1], in float32 or better.

    A query q has the scores ``s_n = q · k_n / sqrt(E)`` and attends with the density
    ``N(sigmoid(w_mean · s), softplus(w_spread · s))``.

    Args:
        d_model: D.
        n_heads: H.
        d_head: E.
        signal: the settings.

    Source: Martins et al. 2022, sections 3.1 to 3.3; the gate, ``sigmoid(conv(x)) x`` over three tokens, is the
    authors' code. Their projection of queries is left out: it is never used.
    """

    def __init__(self, d_model: int, n_heads: int, d_head: int, signal: ContinuousSignal) -> None:
        super().__init__()
        self.n_heads, self.d_head, self.signal = n_heads, d_head, signal
        self.gate = nn.Conv1d(d_model, d_model, 3, padding=1)
        self.key = nn.Linear(d_model, n_heads * d_head, bias=False)
        self.value = nn.Linear(d_model, n_heads * d_head, bias=False)
        self.mean = nn.Linear(signal.basis, 1, bias=False)
        self.spread = nn.Linear(signal.basis, 1, bias=False)
        self.out = nn.Linear(n_heads * d_head, d_model, bias=False)

    def empty(self, batch: int) -> Tensor:
        """Coefficients of nothing."""
        weight = self.key.weight
        dtype = torch.promote_types(weight.dtype, torch.float32)
        return torch.zeros(batch, self.signal.basis, weight.shape[1], dtype=dtype, device=weight.device)

    def update(self, past: Tensor, block: Tensor, empty: Tensor, bins: Tensor | None) -> Tensor:
        """Coefficients after a block: the past contracted to [0, tau], the block behind it.

        Args:
            past: coefficients before, ``(B, N, D)``.
            block: ``(B, L, D)``.
            empty: rows without a past, boolean ``(B,)``: their block fills [0, 1].
            bins: for sticky memories, where each row's past is read, ascending ``(B, samples)``; else None.

        Returns:
            ``(B, N, D)``.
        """
        gated = self.gate(block.transpose(1, 2)).sigmoid().transpose(1, 2) * block
        with without_autocast(past.device):
            gated = gated.to(past.dtype)
            matrices = fit(self.signal, block.shape[1], past.dtype, past.device)
            if not may_hold(~empty):
                return matrices.first.T @ gated
            coefficients = matrices.new.T @ gated
            if matrices.carry is not None:
                coefficients = coefficients + matrices.carry @ past
            elif bins is not None:
                values = matrices.seen @ past
                read = values.gather(1, bins[..., None].expand(-1, -1, values.shape[2]))
                coefficients = coefficients + matrices.past.T @ read
            if may_hold(empty):
                coefficients = torch.where(empty[:, None, None], matrices.first.T @ gated, coefficients)
            return coefficients

    def forward(self, coefficients: Tensor, query: Tensor) -> Read:
        """Attends from queries ``(B, T, H, E)`` to coefficients ``(B, N, D)``."""
        with without_autocast(coefficients.device):
            mean, variance = self._densities(coefficients, query.to(coefficients.dtype))
            z = self._expected(coefficients, mean, variance)
        return Read(self.out(z.to(self.out.weight.dtype)), mean, variance)

    def _densities(self, coefficients: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, ``(B, H, T)`` each; the weights go to the keys first, so that no score is computed."""
        dtype = coefficients.dtype
        weights = torch.cat([self.mean.weight, self.spread.weight]).to(dtype)
        keys = linear(weights @ coefficients, self.key.weight.to(dtype)).unflatten(-1, (self.n_heads, -1))
        place, spread = (torch.einsum("bthe,bkhe->kbht", query, keys) / math.sqrt(self.d_head)).unbind()
        return place.sigmoid(), softplus(spread).clamp(min=self.signal.least_variance)

    def _expected(self, coefficients: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """The values that the densities expect, ``(B, T, H·E)``."""
        (batch, size, width), steps = coefficients.shape, mean.shape[2]
        basis = functions(self.signal, coefficients.dtype, coefficients.device)
        weight = self.value.weight.to(coefficients.dtype)
        if steps * (size + self.d_head) * width < size * self.d_head * (width + steps):
            # Few queries: to project what they expect costs less than to project all coefficients.
            z = expectation(mean.flatten(1), variance.flatten(1), coefficients, *basis)
            z = z.unflatten(1, (self.n_heads, steps))
            parts = weight.unflatten(0, (self.n_heads, self.d_head))
            return torch.einsum("bhtd,hed->bthe", z, parts).flatten(2)
        values = linear(coefficients, weight).unflatten(-1, (self.n_heads, -1)).transpose(1, 2).flatten(0, 1)
        z = expectation(mean.flatten(0, 1), variance.flatten(0, 1), values, *basis)
        return z.unflatten(0, (batch, self.n_heads)).transpose(1, 2).flatten(2)


def may_hold(rows: Tensor) -> bool:
    """Whether some row may be true. Looked up on a CPU only: to look would make a GPU wait."""
    return rows.device.type != "cpu" or bool(rows.any())
