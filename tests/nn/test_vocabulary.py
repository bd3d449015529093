"""Embedding, output layer, and tying."""

import math

import pytest
import torch

from repro.nn import TokenEmbedding, Vocabulary

IDS = torch.tensor([[1, 4, 4], [0, 2, 1]])


def test_tied_is_one_parameter() -> None:
    vocabulary = Vocabulary(4, 4, size=6)
    assert [tuple(p.shape) for p in vocabulary.parameters()] == [(6, 4)]
    untied = Vocabulary(3, 4, size=6, tied=False)
    assert sorted(tuple(p.shape) for p in untied.parameters()) == [(6, 3), (6, 4)]


def test_the_gradient_of_a_tied_matrix_is_the_sum_of_both_uses() -> None:
    torch.manual_seed(0)
    tied, apart = Vocabulary(4, 4, size=6).double(), Vocabulary(4, 4, size=6, tied=False).double()
    matrix = tied.embedding.table.weight
    with torch.no_grad():
        apart.embedding.table.weight.copy_(matrix)
        apart.head.proj.weight.copy_(matrix)  # type: ignore[union-attr]
    targets = torch.tensor([[0, 5, 3], [2, 2, 1]])
    for vocabulary in (tied, apart):
        vocabulary.score(vocabulary.embed(IDS), targets).nll.sum().backward()
    parts = [p.grad for p in apart.parameters()]
    assert all(part.abs().max() > 1e-3 for part in parts)
    assert torch.allclose(matrix.grad, sum(parts), rtol=0, atol=1e-12)


@pytest.mark.parametrize("tied", [True, False])
def test_embeddings_are_scaled_and_outputs_are_not(tied: bool) -> None:
    vocabulary = Vocabulary(4, 4, size=6, tied=tied)
    table = vocabulary.embedding.table.weight
    assert torch.allclose(vocabulary.embed(IDS), table[IDS] * math.sqrt(4))
    out = table if vocabulary.head is None else vocabulary.head.proj.weight
    hidden = torch.randn(2, 3, 4)
    assert torch.allclose(vocabulary.logits(hidden), hidden @ out.T)
    assert torch.allclose(vocabulary.log_probs(hidden), (hidden @ out.T).log_softmax(-1))


def test_the_scale_can_be_left_out() -> None:
    vocabulary = Vocabulary(4, 4, size=6, scaled=False)
    assert torch.equal(vocabulary.embed(IDS), vocabulary.embedding.table.weight[IDS])
    embedding = TokenEmbedding(4, 6, scale=3.0)
    assert torch.equal(embedding(IDS), 3.0 * embedding.table.weight[IDS])


def test_the_scale_is_of_the_model_and_not_of_a_narrower_token() -> None:
    vocabulary = Vocabulary(3, 16, size=6, tied=False)
    assert torch.allclose(vocabulary.embed(IDS), 4.0 * vocabulary.embedding.table.weight[IDS])


def test_tied_needs_equal_widths() -> None:
    with pytest.raises(ValueError, match=r"not 3 in and 4 out"):
        Vocabulary(3, 4, size=6)


def test_a_token_outside_the_vocabulary_raises() -> None:
    with pytest.raises(IndexError):
        Vocabulary(4, 4, size=6).embed(torch.tensor([6]))
