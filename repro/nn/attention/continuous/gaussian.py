"""Attention with a Gaussian density over a continuous signal."""

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from repro.nn.autograd import Context

# Entries of the table of queries and basis functions that are computed at once: what a CPU's cache holds.
_CPU_ENTRIES = 1 << 19
_GPU_ENTRIES = 1 << 25
# The least exponent on a CPU, which computes several times as slowly with numbers below 1e-38.
_LEAST = -70.0


def expectation(mean: Tensor, variance: Tensor, values: Tensor, centres: Tensor, widths: Tensor) -> Tensor:
    """``E[v(t)]`` for ``t ~ N(mean, variance)`` and the signal ``v(t) = sum_j values_j psi_j(t)``.

    In closed form: the integral of a density times a basis function of centre c and width s is
    ``N(mean; c, variance + s²)``. What the density has outside [0, 1] counts, too; the signal is nearly zero there.

    Args:
        mean: ``(R, T)``.
        variance: ``(R, T)``, above 0.
        values: coefficients of the signal, ``(R, N, E)``, the centre changing slowly and the width fast.
        centres: of the basis functions, ``(C,)``.
        widths: of the basis functions, ``(W,)``; N is ``C · W``.

    Returns:
        ``(R, T, E)``.

    Source: Martins et al. 2022, section 3.2.
    """
    parts = (len(centres), len(widths))
    by_width = values.unflatten(1, parts).transpose(1, 2).flatten(1, 2)
    return _Expectation.apply(mean, variance[..., None] + widths.square(), by_width, centres)


class _Expectation(torch.autograd.Function):
    """``sum_j N(mean; c_j, variances_j) values_j``, with the values ordered by width, then by centre.

    The table ``(R, T, N)`` is made anew in the backward pass, in pieces, and never kept.
    """

    @staticmethod
    def forward(ctx: Context, mean: Tensor, variances: Tensor, values: Tensor, centres: Tensor) -> Tensor:
        ctx.save_for_backward(mean, variances, values, centres)
        y = values.new_empty(*mean.shape, values.shape[-1])
        for rows in _pieces(mean, values.shape[1]):
            square = (mean[rows, :, None] - centres).square_()
            torch.matmul(_densities(square, variances[rows]).flatten(2), values[rows], out=y[rows])
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        mean, variances, values, centres = ctx.saved_tensors
        d_values, sums = torch.empty_like(values), variances.new_empty(3, *variances.shape)
        for rows in _pieces(mean, values.shape[1]):
            offset = mean[rows, :, None] - centres
            table = _densities(offset.square(), variances[rows])
            torch.matmul(table.flatten(2).transpose(1, 2), grad[rows], out=d_values[rows])
            table *= (grad[rows] @ values[rows].transpose(1, 2)).view(table.shape)
            for power in range(3):  # sums of the table, and of it times the offset and the offset squared
                torch.sum(table, -1, out=sums[power, rows])
                if power < 2:
                    table *= offset[:, :, None]
        d_mean = -(sums[1] / variances).sum(-1)
        return d_mean, 0.5 * (sums[2] / variances - sums[0]) / variances, d_values, None


def _pieces(mean: Tensor, size: int) -> list[slice]:
    """Rows of ``mean (R, T)`` whose tables of ``size`` functions are made at once."""
    entries = _CPU_ENTRIES if mean.device.type == "cpu" else _GPU_ENTRIES
    rows = max(2, entries // max(1, mean.shape[1] * size))  # a product of one row is slow on a CPU
    return [slice(begin, begin + rows) for begin in range(0, mean.shape[0], rows)]


def _densities(square: Tensor, variances: Tensor) -> Tensor:
    """Normal densities with ``variances (R, T, W)`` at squared distances ``(R, T, C)``: ``(R, T, W, C)``."""
    exponent = square[:, :, None] * (-0.5 / variances)[..., None]
    if variances.device.type == "cpu" and bool((variances < -0.5 / _LEAST).any()):
        exponent.clamp_(min=_LEAST)
    return exponent.exp_().mul_((2 * math.pi * variances).rsqrt()[..., None])


def divergence(mean: Tensor, variance: Tensor, sigma: float, prior_mean: float | None) -> Tensor:
    """KL divergence of ``N(mean, variance)`` from ``N(prior_mean, sigma²)``, elementwise.

    Args:
        mean: any shape.
        variance: of the same shape.
        sigma: of the prior.
        prior_mean: None takes each density's own mean, so that only variances count.

    Source: Martins et al. 2022, section 3.2.
    """
    ratio = variance / sigma**2
    kl = 0.5 * (ratio - ratio.log() - 1)
    return kl if prior_mean is None else kl + 0.5 * (mean - prior_mean) ** 2 / sigma**2


def histogram(mean: Tensor, variance: Tensor, counts: Tensor, bins: int) -> Tensor:
    """Mass of Gaussian densities in equal bins of [0, 1], summed over them: ``(B, bins)``.

    Args:
        mean: ``(B, P)``.
        variance: ``(B, P)``.
        counts: which densities count, boolean ``(B, P)``.
        bins: number of bins; the outer ones are wider by 1e-6, as in the authors' code.
    """
    edges = torch.linspace(0, 1, bins + 1, dtype=mean.dtype, device=mean.device)
    edges[0], edges[-1] = -1e-6, 1 + 1e-6
    below = torch.special.ndtr((edges - mean[..., None]) / variance.sqrt()[..., None])
    return (below * counts[..., None]).sum(1).diff(dim=-1)


def draw_bins(mass: Tensor, counter: Tensor, samples: int, seed: Tensor) -> Tensor:
    """Bins drawn with replacement in proportion to their mass, in ascending order: ``(B, samples)``.

    The random numbers follow from seed and counter alone, on every device: rows with the same counter have the same.

    Args:
        mass: ``(B, bins)``, at least 0.
        counter: of each row's draws, ``(B,)``.
        samples: draws.
        seed: of the random numbers, a 64-bit integer.
    """
    bounds = mass.double().cumsum(-1)
    level = uniform(counter, samples, seed).sort(-1).values * bounds[:, -1:]
    return torch.searchsorted(bounds, level, right=True).clamp(max=mass.shape[1] - 1)


def uniform(counter: Tensor, count: int, seed: Tensor) -> Tensor:
    """``(B, count)`` numbers in [0, 1) in float64, a function of seed, ``counter (B,)`` and place alone.

    Source: the SplitMix64 generator of Steele, Lea and Flood 2014, used as a hash.
    """
    step = torch.arange(1, count + 1, device=counter.device) * _GOLDEN
    bits = _mixed(_mixed(counter.long() + seed * _GOLDEN)[:, None] + step)
    return _shifted(bits, 11).double() * 2.0**-53


def _mixed(bits: Tensor) -> Tensor:
    bits = (bits ^ _shifted(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shifted(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, places: int) -> Tensor:
    """A logical shift to the right of 64-bit integers."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


def _signed(number: int) -> int:
    """An integer modulo 2^64 as a signed 64-bit one."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


_GOLDEN = _signed(0x9E3779B97F4A7C15)
