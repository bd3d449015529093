"""Hashed attention block by block: precision, dropout, replayed bucket ids, and what is kept for the backward pass."""

import math

import pytest
import torch
from torch import Tensor

from repro.nn import Hashing, Layout, LSHAttention
from tests.nn.hashed import TOLERANCE, make, tokens, weighted
from tests.nn.mixers import difference, gradients


@pytest.mark.parametrize("hashing", [Hashing(3, 4, 4), Hashing.averaged(3, 4, 4)])
def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, hashing: Hashing) -> None:
    mixer, x = make(hashing), tokens(37)
    for causal in (True, False):
        layout = Layout(causal, bucket_replay=mixer(x, None, Layout(causal)).bucket_replay)
        whole = mixer(x, None, layout).y
        expected = gradients(weighted(whole), [x], mixer)
        for size in (1, 70, 200, 1000):
            monkeypatch.setattr("repro.nn.attention.hashed.arrangement._BLOCK", {"cpu": size})
            y = mixer(x, None, layout).y
            assert difference(y, whole) < TOLERANCE
            for key, grad in gradients(weighted(y), [x], mixer).items():
                assert difference(grad, expected[key]) < TOLERANCE, key
        monkeypatch.undo()


def test_a_token_that_sees_nothing_else_gives_its_own_value_exactly() -> None:
    """In float32 scores near -1e5 are 0.008 apart, so that weights of rounds would not sum to 1."""
    for hashing in (Hashing(4, 8, 8), Hashing.across(4, 8, 8)):
        mixer, x = make(hashing).float(), tokens(64).float()
        mixer.out = torch.nn.Identity()  # type: ignore[assignment]
        own = mixer.qk_v(x).split(mixer.widths, -1)[1]
        assert torch.equal(mixer(x, None, Layout(True)).y[:, 0], own[:, 0])
    mixer.hashing = Hashing(4, 8, 128)
    ids = torch.arange(64, dtype=torch.int16).expand(2, 2, 4, 64)  # everyone alone
    y = mixer(x, None, Layout(True, bucket_replay=ids)).y
    assert torch.equal(y, own)
    (grad,) = torch.autograd.grad(weighted(y), [x], retain_graph=True)
    (expected,) = torch.autograd.grad(weighted(own), [x])
    assert torch.equal(grad, expected)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_half_precision(dtype: torch.dtype, tolerance: float) -> None:
    mixer, x = make(Hashing(4, 8)).float(), tokens(40).float()
    expected, _, _, ids = mixer(x, None, Layout(True))
    with torch.autocast("cpu", dtype):
        got = mixer(x, None, Layout(True, bucket_replay=ids)).y
    assert got.dtype == dtype
    assert difference(got.float(), expected) < tolerance
    grads = gradients(weighted(expected), [x], mixer)
    for key, grad in gradients(weighted(got.float()), [x], mixer).items():
        assert difference(grad, grads[key]) < 3 * tolerance, key
    low = mixer.to(dtype)(x.to(dtype), None, Layout(True)).y
    assert low.isfinite().all()


def test_choices_are_replayed_and_random_numbers_with_them() -> None:
    mixer, x = make(Hashing(2, 8), dropout=0.3), tokens(40)
    torch.manual_seed(1)
    y, _, _, ids = mixer(x, None, Layout(True))
    after = torch.rand(())
    assert ids.dtype == torch.int8
    assert ids.shape == (2, 2, 2, 40)
    torch.manual_seed(1)
    again = mixer(x, None, Layout(True, bucket_replay=ids)).y
    assert torch.equal(again, y)
    assert torch.rand(()) == after
    fresh = mixer(x, None, Layout(True))
    assert not torch.equal(fresh.bucket_replay, ids)
    assert difference(fresh.y, y) > 1e-3
    with pytest.raises(ValueError, match="bucket ids of shape"):
        mixer(x, None, Layout(True, bucket_replay=ids[:, :, :1]))


def test_no_gradient_flows_through_the_buckets() -> None:
    mixer, x = make(Hashing(2, 8)), tokens(40)
    torch.manual_seed(1)
    y, _, _, ids = mixer(x, None, Layout(True))
    fixed = mixer(x, None, Layout(True, bucket_replay=ids)).y
    assert torch.equal(y, fixed)
    a, b = gradients(weighted(y), [x], mixer), gradients(weighted(fixed), [x], mixer)
    assert all(torch.equal(a[key], b[key]) for key in a)


def test_dropout_keeps_the_mean_and_its_gradient_is_right() -> None:
    mixer, x = make(Hashing(2, 8), dropout=0.4), tokens(16, rows=1)
    ids = mixer(x, None, Layout(True)).bucket_replay

    def run(point: Tensor) -> Tensor:
        torch.manual_seed(7)
        return mixer(point, None, Layout(True, bucket_replay=ids)).y

    assert torch.autograd.gradcheck(run, (x,), fast_mode=True)
    mixer.eval()
    expected = run(x)
    mixer.train()
    with torch.no_grad():  # many rows alike, in blocks and over several calls
        rows, same_ids = x.expand(100, -1, -1), ids.expand(100, -1, -1, -1)
        many = torch.cat([mixer(rows, None, Layout(True, bucket_replay=same_ids)).y for _ in range(4)])
    error = many.std(0) / math.sqrt(len(many))
    assert ((many.mean(0) - expected[0]).abs() < 4 * error + 1e-9).float().mean() > 0.99
    assert many.std(0).mean() > 0.05


@torch.no_grad()
def test_dropout_differs_from_block_to_block(monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, x = make(Hashing(1, 8), dropout=0.4), tokens(16, rows=1)
    ids = mixer(x, None, Layout(True)).bucket_replay
    monkeypatch.setattr("repro.nn.attention.hashed.arrangement._BLOCK", {"cpu": 1})  # a chunk each
    y = mixer(x.expand(2, -1, -1), None, Layout(True, bucket_replay=ids.expand(2, -1, -1, -1))).y
    assert difference(y[0], y[1]) > 1e-2


def test_no_tensor_of_length_times_chunk_is_kept() -> None:
    mixer, x = LSHAttention(16, 2, Hashing(4, 32)), torch.randn(1, 512, 16, requires_grad=True)
    sizes: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (sizes.append(t.numel()), t)[1], lambda t: t):
        mixer(x, None, Layout(True)).y.sum().backward()
    assert max(sizes) <= 512 * 2 * 16
