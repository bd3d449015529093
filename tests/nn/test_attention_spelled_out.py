"""Attention that makes its table of weights, and dropout of attention weights."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from repro.nn.attention.full import attend, spelled_out


def heads(steps: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    shapes = (2, 3, steps, 5), (2, 3, size, 5), (2, 3, size, 7)
    q, k, v = (torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes)
    return q, k, v


MASKS = {
    "none": (7, 7, None, False),
    "causal": (7, 7, None, True),
    "keys of a row": (3, 6, torch.tensor([6, 2])[:, None, None, None] > torch.arange(6), False),
    "of queries": (2, 6, torch.arange(6) <= torch.tensor([4, 5])[:, None], False),
}


@pytest.mark.parametrize("name", MASKS)
def test_spelled_out_is_the_same_attention(name: str) -> None:
    steps, size, attention_mask, causal = MASKS[name]
    q, k, v = heads(steps, size)
    expected = scaled_dot_product_attention(q, k, v, attn_mask=attention_mask, is_causal=causal)
    result = spelled_out(q, k, v, attention_mask, causal, 0.0)
    assert torch.allclose(result, expected, atol=1e-12, rtol=0)
    weight = torch.randn(expected.shape, dtype=torch.float64)
    for mine, official in zip(
        torch.autograd.grad((result * weight).sum(), (q, k, v)),
        torch.autograd.grad((expected * weight).sum(), (q, k, v)),
        strict=True,
    ):
        assert torch.allclose(mine, official, atol=1e-11, rtol=0)


def test_a_query_that_sees_nothing_stays_finite() -> None:
    q, k, v = heads(2, 3)
    assert bool(spelled_out(q, k, v, torch.zeros(2, 1, 2, 3, dtype=torch.bool), False, 0.5).isfinite().all())


def test_attention_weights_are_dropped_and_the_mean_stays() -> None:
    torch.manual_seed(0)
    q, k, v = (t.detach().transpose(1, 2) for t in heads(4, 4))
    whole = attend(q, k, v, None, True, 0.0)
    drawn = torch.stack([attend(q, k, v, None, True, 0.3) for _ in range(4000)])
    assert drawn[:, :, 0].eq(0).all(-1).float().mean() > 0  # the first query sees one key, now and then none
    assert float((drawn.mean(0) - whole).abs().max()) < 0.12
    assert float(drawn.std(0).min()) > 0.0
