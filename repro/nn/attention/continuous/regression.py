"""Gaussian basis functions, and the ridge regression that turns a sequence into their coefficients.

The regression is linear in the sequence, and its matrix depends on lengths only: it is computed once, in float64, and
kept for each length, dtype and device.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from repro.nn.attention.continuous.signal import ContinuousSignal

# Smaller entries are left out: a CPU computes several times as slowly with numbers below 1e-38.
_LEAST = 1e-30


class Fit(NamedTuple):
    """Matrices of an update with a block of L tokens.

    Attributes:
        first: ``(L, N)``; ``firstᵀ X`` are the coefficients of a block ``X (L, D)`` alone.
        new: ``(L, N)``, the same for a block behind a past.
        past: ``(samples, N)``, for the samples of the past.
        seen: the basis functions at the positions where the past is read, ``(samples, N)`` or ``(bins, N)``.
        carry: ``pastᵀ seen``, ``(N, N)``, where the past is always read at the same positions; else None.
    """

    first: Tensor
    new: Tensor
    past: Tensor
    seen: Tensor
    carry: Tensor | None = None


@lru_cache(maxsize=64)
def functions(signal: ContinuousSignal, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Centres ``(C,)`` and widths ``(W,)`` of the basis functions, N = C W. Kept from call to call."""
    with torch.inference_mode(False), torch.no_grad():
        count = signal.basis // len(signal.widths)
        centres = torch.linspace(0, 1, count, dtype=torch.float64, device="cpu")
        widths = torch.tensor(signal.widths, dtype=torch.float64, device="cpu")
        return centres.to(device, dtype), widths.to(device, dtype)


def evaluate(positions: Tensor, signal: ContinuousSignal) -> Tensor:
    """The basis functions, which are densities, at positions ``(P,)``: ``(P, N)`` in float64.

    The centre changes slowly from one function to the next, the width fast.
    """
    centres, widths = functions(signal, torch.float64, torch.device("cpu"))
    scaled = (positions[:, None, None] - centres[:, None]) / widths
    return (torch.exp(-0.5 * scaled**2) / (widths * math.sqrt(2 * math.pi))).flatten(1)


def regression(positions: Tensor, signal: ContinuousSignal) -> Tensor:
    """``G = Fᵀ (F Fᵀ + ridge I)⁻¹`` with ``F (N, P)`` the basis functions at positions ``(P,)``: ``(P, N)``.

    ``Gᵀ X`` minimises ``|X - Fᵀ B|² + ridge |B|²`` over ``B (N, D)``.
    """
    values = evaluate(positions, signal)
    gram = values.T @ values
    gram.diagonal().add_(signal.ridge)  # invertible also with fewer positions than functions
    return torch.linalg.solve(gram, values.T).T


def padded(inner: Tensor, outer: Tensor, signal: ContinuousSignal) -> Tensor:
    """Rows of the regression at ``inner (P,)``; behind and before them zeros are fitted, at P of the points ``outer``.

    So the signal goes to zero outside [0, 1].
    """
    half = len(inner) // 2
    positions = torch.cat([outer[:half], inner, outer[len(outer) - half :]])
    return regression(positions, signal)[half : half + len(inner)]


@lru_cache(maxsize=64)
def fit(signal: ContinuousSignal, length: int, dtype: torch.dtype, device: torch.device) -> Fit:
    """The matrices for blocks of ``length`` tokens. Kept from call to call: do not write into them.

    Source: Martins et al. 2022, sections 3.1 and 3.3; the padding is the authors' code, which fails at odd lengths.
    Deviation: float64 inside, where the authors' code inverts in float32.
    """
    samples, tau, bins = signal.samples, signal.tau, signal.bins
    with torch.inference_mode(False), torch.no_grad():  # else training cannot use them after validation
        around = (_steps(2 * length) - length // 2 - 0.5) / length
        first = padded(
            around[length // 2 : length // 2 + length], around[: length + 2 * (length // 2)], signal
        )
        both = torch.cat([tau * _steps(samples) / samples, tau + (1 - tau) * _steps(length) / length])
        shift = 1 / (2 * length + samples)  # not of n points, as in the authors' code
        outer = torch.linspace(-0.5 + shift, 1.5 - shift, 2 * len(both), dtype=torch.float64, device="cpu")
        past, new = padded(both, outer, signal).split([samples, length])
        places = _steps(samples) / samples if bins is None else (_steps(bins) - 1) / bins
        values = evaluate(places, signal)
        matrices = [first, new, past, values, *([past.T @ values] if bins is None else [])]
        return Fit(*(one.where(one.abs() > _LEAST, 0).to(device, dtype) for one in matrices))


def _steps(count: int) -> Tensor:
    """1 to ``count`` in float64."""
    return torch.arange(1, count + 1, dtype=torch.float64, device="cpu")
