"""From tokens to vectors."""

import pytest
import torch
from torch.nn.functional import linear

from repro.nn import TokenEmbedding, VectorEmbedding


def test_a_token_gets_its_row_times_the_scale() -> None:
    torch.manual_seed(0)
    embedding = TokenEmbedding(4, 9, scale=3.0)
    ids = torch.tensor([[0, 8], [5, 5]])
    assert embedding(ids).shape == (2, 2, 4)
    assert torch.equal(embedding(ids)[1, 0], 3.0 * embedding.table.weight[5])


@pytest.mark.parametrize(("width", "size"), [(64, 16), (64, 1), (16, 64), (16, 16)])
@pytest.mark.parametrize("gain", [1.41, 0.5])
def test_the_projection_begins_orthogonal(width: int, size: int, gain: float) -> None:
    torch.manual_seed(0)
    weight = VectorEmbedding(width, size, gain).proj.weight.detach().double()
    assert weight.shape == (width, size)
    short = weight.T @ weight if width >= size else weight @ weight.T
    assert torch.allclose(short, gain**2 * torch.eye(min(width, size), dtype=torch.float64), atol=1e-5)


def test_its_settings_unless_others_are_given() -> None:
    torch.manual_seed(0)
    embedding = VectorEmbedding(32, 5)
    assert float((embedding.proj.weight.detach()[:, 0] ** 2).sum()) == pytest.approx(1.41**2, rel=1e-5)
    assert torch.equal(embedding.proj.bias, torch.zeros(32))
    assert embedding.dropout.p == 0.1


def test_two_are_drawn_apart() -> None:
    torch.manual_seed(0)
    assert not torch.equal(VectorEmbedding(8, 4).proj.weight, VectorEmbedding(8, 4).proj.weight)


def test_dropout_acts_on_the_output_and_in_training_only() -> None:
    torch.manual_seed(0)
    embedding = VectorEmbedding(50, 3, dropout=0.5)
    x = torch.randn(4, 20, 3)
    expected = x @ embedding.proj.weight.T + embedding.proj.bias
    y = embedding(x)
    assert 0.45 < float((y == 0).float().mean()) < 0.55
    kept = y != 0
    assert torch.allclose(y[kept], 2.0 * expected[kept], atol=1e-6)
    assert torch.allclose(embedding.eval()(x), expected, atol=1e-6)


def test_without_memory_it_is_made_as_well() -> None:
    with torch.device("meta"):
        embedding = VectorEmbedding(768, 50)
    assert embedding.proj.weight.is_meta
    assert sum(p.numel() for p in embedding.parameters()) == 50 * 768 + 768


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
@pytest.mark.parametrize("lower", [False, True])
def test_scores_have_the_gradients_of_a_linear_layer(shape: tuple[int, ...], lower: bool) -> None:
    embedding, hidden = TokenEmbedding(8, 11), torch.randn(*shape, 8, requires_grad=True)
    inputs = [hidden, embedding.table.weight]
    with torch.autocast("cpu", torch.bfloat16, enabled=lower):
        ours, plain = embedding.scores(hidden), linear(hidden, embedding.table.weight)
    assert torch.equal(ours, plain)
    assert ours.dtype is plain.dtype
    grad = torch.randn_like(ours)
    pairs = zip(
        torch.autograd.grad(ours, inputs, grad), torch.autograd.grad(plain, inputs, grad), strict=True
    )
    for got, expected in pairs:
        assert got.dtype is expected.dtype
        torch.testing.assert_close(got, expected)


def test_a_frozen_table_and_given_hidden_states_get_no_gradient() -> None:
    embedding, hidden = TokenEmbedding(8, 11), torch.randn(3, 8)
    embedding.scores(hidden).sum().backward()
    assert hidden.grad is None
    assert embedding.table.weight.grad is not None
    frozen = TokenEmbedding(8, 11).requires_grad_(False)
    frozen.scores(hidden.requires_grad_()).sum().backward()
    assert hidden.grad is not None
    assert frozen.table.weight.grad is None
