"""Helpers of the tests of hashed attention: settings, a mixer, tokens, and comparison with gradients."""

import torch
from torch import Tensor

from repro.nn import Hashing, LSHAttention
from tests.nn.mixers import D_MODEL, difference, gradients, randomise

TOLERANCE = 1e-12
KINDS = {
    "paper": Hashing(2, 8, 6),
    "bucket mask only": Hashing(2, 8, 6, duplicates=True),
    "across": Hashing.across(2, 8, 6),
    "across, counted once": Hashing(2, 8, 6, across_buckets=True),
    "plain keys, self": Hashing(2, 8, 6, unit_keys=False, see_self=True),
    "average": Hashing(2, 8, 6, across_buckets=True, duplicates=True, average=True),
    "average, bucket mask": Hashing(2, 8, 6, duplicates=True, average=True, see_self=True),
    "averaged": Hashing.averaged(2, 8, 6),
    "no look back at the start": Hashing(2, 8, 6, across_buckets=True, duplicates=True, wrap=False),
    "scaled, bucket mask, no look back at the start": Hashing(2, 8, 6, scaled=True, wrap=False),
    "factors": Hashing(2, 8, (2, 4)),
    "three factors, across": Hashing(
        2, 8, (2, 4, 2), across_buckets=True, duplicates=True, shared_rotations=True
    ),
}


def make(hashing: Hashing, **options: float) -> LSHAttention:
    """A mixer in float64 whose widths all differ, every weight and bias random."""
    torch.manual_seed(0)
    mixer = LSHAttention(D_MODEL, 2, hashing, d_head=5, d_value=3, bias=True, **options)  # type: ignore[arg-type]
    randomise(mixer)
    return mixer.double()


def tokens(steps: int, rows: int = 2, seed: int = 3) -> Tensor:
    """Random inputs ``(B, T, D)``."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, steps, D_MODEL, generator=generator, dtype=torch.float64).requires_grad_()


def weighted(y: Tensor) -> Tensor:
    """A scalar that treats no two outputs alike."""
    return (y * torch.randn(y.shape, generator=torch.Generator().manual_seed(5), dtype=y.dtype)).sum()


def same(mixer: LSHAttention, got: Tensor, wanted: Tensor, x: Tensor) -> None:
    """Outputs and the gradients of input and every parameter agree."""
    assert difference(got, wanted) < TOLERANCE
    expected = gradients(weighted(wanted), [x], mixer)
    for key, grad in gradients(weighted(got), [x], mixer).items():
        assert difference(grad, expected[key]) < TOLERANCE, key
