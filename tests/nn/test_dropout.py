"""Dropout drawn four numbers at a time, and attention that is spelled out for it."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from repro.nn.attention.full import attend, spelled_out
from repro.nn.dropout import Dropout, dropout, kept


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_shares_and_scale(p: float) -> None:
    torch.manual_seed(0)
    drawn = kept(torch.empty(401, 1003, dtype=torch.float64), p)
    share = round(p * 65536) / 65536
    assert set(drawn.unique().tolist()) == {0.0, 1 / (1 - share)}
    assert float((drawn == 0).double().mean()) == pytest.approx(p, abs=0.004)  # 5 standard deviations
    assert float(drawn.mean()) == pytest.approx(1.0, abs=0.03)


def test_neighbours_are_independent() -> None:
    torch.manual_seed(0)
    dropped = (kept(torch.empty(400_000), 0.5) == 0).double()
    for lag in (1, 2, 3, 4, 8):
        both = float((dropped[:-lag] * dropped[lag:]).mean())
        assert both == pytest.approx(0.25, abs=0.005), lag
    by_lane = dropped.view(-1, 4).mean(0)
    assert by_lane.tolist() == pytest.approx([0.5] * 4, abs=0.01)


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5,), (3, 7), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_every_shape_and_dtype(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    found = dropout(torch.ones(shape, dtype=dtype), 0.5)
    assert found.shape == shape
    assert found.dtype == dtype
    assert set(found.flatten().tolist()) <= {0.0, 2.0}


def test_the_gradient_is_what_was_kept() -> None:
    torch.manual_seed(3)
    x = torch.randn(50, 9, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.3)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad * x.detach(), y.detach())
    assert 0 < int((x.grad == 0).sum()) < 450


def test_it_follows_the_generator() -> None:
    torch.manual_seed(1)
    first, second = kept(torch.empty(99), 0.5), kept(torch.empty(99), 0.5)
    torch.manual_seed(1)
    assert torch.equal(kept(torch.empty(99), 0.5), first)
    assert not torch.equal(first, second)


def test_none_and_all() -> None:
    x = torch.randn(100)
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(dropout(x, 1e-7), x)  # less than a step
    assert not dropout(x, 1.0).any()


def test_as_a_module() -> None:
    module, x = Dropout(0.5), torch.ones(1000)
    assert 300 < int((module(x) == 0).sum()) < 700
    assert torch.equal(module.eval()(x), x)


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
    steps, size, seen, causal = MASKS[name]
    q, k, v = heads(steps, size)
    expected = scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=causal)
    found = spelled_out(q, k, v, seen, causal, 0.0)
    assert torch.allclose(found, expected, atol=1e-12, rtol=0)
    weight = torch.randn(expected.shape, dtype=torch.float64)
    for mine, theirs in zip(
        torch.autograd.grad((found * weight).sum(), (q, k, v)),
        torch.autograd.grad((expected * weight).sum(), (q, k, v)),
        strict=True,
    ):
        assert torch.allclose(mine, theirs, atol=1e-11, rtol=0)


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
