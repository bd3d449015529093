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


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("chunk", [None, 4])
def test_a_bias_is_added_to_every_score_and_learns(tied: bool, chunk: int | None) -> None:
    torch.manual_seed(0)
    plain = Vocabulary(4, 4, size=6, tied=tied).double()
    vocabulary = Vocabulary(4, 4, size=6, tied=tied, loss_chunk=chunk, bias=True).double()
    (name,) = vocabulary.state_dict().keys() - plain.state_dict().keys()
    bias = torch.randn(6, dtype=torch.float64)
    vocabulary.load_state_dict({**plain.state_dict(), name: bias})
    hidden = torch.randn(2, 3, 4, dtype=torch.float64)
    scores = plain.logits(hidden) + bias
    torch.testing.assert_close(vocabulary.logits(hidden), scores)
    torch.testing.assert_close(vocabulary.log_probs(hidden), scores.log_softmax(-1))
    nll = vocabulary.nll(hidden, IDS)
    torch.testing.assert_close(nll, -scores.log_softmax(-1).gather(-1, IDS[..., None])[..., 0])
    torch.testing.assert_close(vocabulary.score(hidden, IDS).nll, nll)
    nll.sum().backward()
    expected = scores.softmax(-1).sum((0, 1)) - torch.bincount(IDS.flatten(), minlength=6)
    torch.testing.assert_close(vocabulary.get_parameter(name).grad, expected)


def test_a_tied_bias_begins_at_zero() -> None:
    bias = Vocabulary(4, 4, size=6, bias=True).bias
    assert bias is not None
    assert not bias.any()


def test_tied_needs_equal_widths() -> None:
    with pytest.raises(ValueError, match=r"not 3.*4 out"):
        Vocabulary(3, 4, size=6)


def test_a_token_outside_the_vocabulary_raises() -> None:
    with pytest.raises(IndexError):
        Vocabulary(4, 4, size=6).embed(torch.tensor([6]))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("chunk", [1, 4, 6, 7])
def test_losses_in_chunks_are_the_same(tied: bool, chunk: int) -> None:
    torch.manual_seed(0)
    whole, cut = (Vocabulary(4, 4, size=6, tied=tied, loss_chunk=c).double() for c in (None, chunk))
    cut.load_state_dict(whole.state_dict())
    hidden = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 2, 3, dtype=torch.float64)
    result = []
    for vocabulary in (whole, cut):
        nll, score = vocabulary.nll(hidden, IDS), vocabulary.score(hidden, IDS)
        assert nll.shape == score.uniform.shape == (2, 3)
        assert torch.allclose(nll, score.nll)
        padded = vocabulary.padded_score(hidden, IDS, padding=2)
        assert torch.allclose(padded.padding, vocabulary.nll(hidden, torch.full_like(IDS, 2)))
        loss = (torch.stack([nll, *score]) * weight).sum() + (torch.stack(padded) * weight).sum()
        head = vocabulary.embedding.table.weight if tied else vocabulary.head.proj.weight  # type: ignore[union-attr]
        result.append([nll, *score, *padded, *torch.autograd.grad(loss, [hidden, head])])
        with torch.no_grad():
            assert torch.equal(vocabulary.nll(hidden, IDS), nll)
    for a, b in zip(*result, strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-12)


def test_logits_of_a_chunk_exist_one_at_a_time() -> None:
    vocabulary = Vocabulary(4, 4, size=6, tied=False, loss_chunk=4)
    sizes: list[tuple[int, ...]] = []
    vocabulary.head.proj.register_forward_hook(lambda _, __, y: sizes.append(tuple(y.shape)))  # type: ignore[union-attr]
    loss = vocabulary.nll(torch.randn(2, 3, 4), IDS).sum()
    assert sizes == [(4, 6), (2, 6)]
    loss.backward()
    assert sorted(sizes[2:]) == [(2, 6), (4, 6)], "computed again, not kept"


def test_a_chunk_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match=r"loss_chunk.*1, not 0"):
        Vocabulary(4, 4, size=6, loss_chunk=0)
