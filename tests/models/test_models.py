"""Whole models: carried state, causality, padding, and parameter counts. Float64."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from repro.models import DecoderLM, EncoderDecoder
from repro.nn import (
    AdaptiveVocabulary,
    Added,
    Blocks,
    Concatenated,
    CrossAttention,
    FeedForward,
    FullAttention,
    Layout,
    LearnedPositions,
    PostNorm,
    PreNorm,
    ResidualStack,
    ReversibleStack,
    Vocabulary,
)
from tests.nn.mixers import difference, randomise

V, D = 17, 12
TOLERANCE = 1e-12
CHUNKS = [[1] * 10, [3, 7], [4, 4, 2]]
POSITIONS = {
    "added": Added,
    "learned": partial(Added, table=partial(LearnedPositions, max_length=12)),
    "concatenated": partial(Concatenated, width=4),
}


def blocks(norm: type = PostNorm, d_ff: int = 20, heads: int = 2) -> Blocks:
    return Blocks(
        mixers=[partial(FullAttention, n_heads=heads)],
        cross=partial(CrossAttention, n_heads=heads),
        feed_forward=partial(FeedForward, d_ff=d_ff),
        sublayer=norm,
        final_norm=nn.LayerNorm if norm is PreNorm else None,
    )


def vocabulary(positions: str) -> partial[Vocabulary]:
    return partial(Vocabulary, size=V, tied=positions != "concatenated")


def language_model(norm: type = PostNorm, positions: str = "added") -> DecoderLM:
    torch.manual_seed(0)
    net = DecoderLM(D, 2, vocabulary(positions), blocks(norm), POSITIONS[positions])
    return randomise(net.double().eval())  # type: ignore[return-value]


def translator(norm: type = PostNorm, positions: str = "added") -> EncoderDecoder:
    torch.manual_seed(0)
    net = EncoderDecoder(D, 2, 2, vocabulary(positions), blocks(norm), POSITIONS[positions])
    return randomise(net.double().eval())  # type: ignore[return-value]


def ids(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


VARIANTS = [(PostNorm, "added"), (PreNorm, "added"), (PostNorm, "learned"), (PreNorm, "concatenated")]


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("capacity", [None, 10])
@pytest.mark.parametrize(("norm", "positions"), VARIANTS)
@torch.no_grad()
def test_language_model_in_chunks(
    norm: type, positions: str, capacity: int | None, chunks: list[int]
) -> None:
    net, tokens = language_model(norm, positions), ids(3, 10)
    state, parts = net.init_state(3, capacity), []
    for part in tokens.split(chunks, dim=1):
        y, state, *_ = net(part, state)
        parts.append(y)
    assert difference(torch.cat(parts, 1), net(tokens).y) < TOLERANCE
    assert state["stream"]["start"].tolist() == [10] * 3


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("capacity", [None, 10])
@pytest.mark.parametrize(("norm", "positions"), VARIANTS)
@torch.no_grad()
def test_translator_in_chunks(norm: type, positions: str, capacity: int | None, chunks: list[int]) -> None:
    net, source, target = translator(norm, positions), ids(3, 7), ids(3, 10, seed=2)
    lengths = torch.tensor([7, 2, 5])
    state, parts = net.start(source, lengths, capacity=capacity), []
    for part in target.split(chunks, dim=1):
        y, state, *_ = net.decode(part, state)
        parts.append(y)
    assert difference(torch.cat(parts, 1), net(source, lengths, target).y) < TOLERANCE


@pytest.mark.parametrize(("encoder", "decoder"), [(PostNorm, PreNorm), (PreNorm, PostNorm)])
@torch.no_grad()
def test_encoder_and_decoder_of_different_norms(encoder: type, decoder: type) -> None:
    """Each stack computes what it computes in a network of one norm with the same weights."""
    net = EncoderDecoder(
        D, 2, 2, partial(Vocabulary, size=V), blocks(encoder), decoder_blocks=blocks(decoder, d_ff=24)
    )
    net = randomise(net.double().eval())  # type: ignore[assignment]
    source, target = ids(3, 7), ids(3, 5, seed=2)
    whole = blocks(encoder).build(D, 2).double().eval()
    whole.load_state_dict(net.encoder.state_dict())
    x = net.positions(net.vocabulary.embed(source), torch.arange(7))
    assert torch.equal(net.encode(source, None).y, whole(x, None, Layout(False)).y)
    last = blocks(decoder, d_ff=24).build(D, 2, cross=True).double().eval()
    last.load_state_dict(net.decoder.state_dict())
    memory = last.attend_to(net.encode(source, None).y, None)
    x = net.positions(net.vocabulary.embed(target), torch.arange(5))
    assert difference(net(source, None, target).y, last(x, memory, Layout(True)).y) < TOLERANCE


@torch.no_grad()
def test_rows_advance_by_their_own_lengths() -> None:
    net, tokens = language_model(), ids(2, 9)
    state = net.init_state(2)
    first = torch.stack([tokens[0, :4], torch.cat([tokens[1, :1], ids(3, seed=9)])])
    _, state, *_ = net(first, state, torch.tensor([4, 1]))
    rest = torch.stack([tokens[0, 4:8], tokens[1, 1:5]])
    y, state, *_ = net.decode(rest, state)
    whole = net(tokens).y
    assert state["stream"]["start"].tolist() == [8, 5]
    assert difference(y[0], whole[0, 4:8]) < TOLERANCE
    assert difference(y[1], whole[1, 1:5]) < TOLERANCE


@torch.no_grad()
def test_hypotheses_share_their_source() -> None:
    net, source, target = translator(), ids(2, 7), ids(6, 4, seed=2)
    lengths = torch.tensor([7, 3])
    y = net.decode(target, net.start(source, lengths, beams=3)).y
    repeated = net(source.repeat_interleave(3, 0), lengths.repeat_interleave(3), target).y
    assert difference(y, repeated) < TOLERANCE


@pytest.mark.parametrize("token", [0, 4, 9])
@pytest.mark.parametrize("norm", [PostNorm, PreNorm])
@torch.no_grad()
def test_a_token_changes_no_output_before_it(norm: type, token: int) -> None:
    source, tokens = ids(2, 7), ids(2, 10, seed=2)
    other = tokens.clone()
    other[:, token] = (other[:, token] + 1) % V
    lm, mt = language_model(norm), translator(norm)
    pairs = [(lm(tokens).y, lm(other).y), (mt(source, None, tokens).y, mt(source, None, other).y)]
    for before, after in pairs:
        assert torch.equal(before[:, :token], after[:, :token])
        assert difference(before[:, token:], after[:, token:]) > 1e-3


@torch.no_grad()
def test_every_source_token_reaches_every_output() -> None:
    net, source, target = translator(), ids(1, 5), ids(1, 4, seed=2)
    before = net(source, None, target).y
    for token in range(5):
        other = source.clone()
        other[:, token] = (other[:, token] + 1) % V
        changed = (net(source=other, source_lengths=None, target=target).y - before).abs().amax(-1)
        assert changed.min() > 1e-6


@pytest.mark.parametrize(("norm", "positions"), VARIANTS)
@torch.no_grad()
def test_a_sentence_alone_equals_the_sentence_padded_in_a_batch(norm: type, positions: str) -> None:
    source, target = ids(3, 8), ids(3, 10, seed=2)
    source_lengths, lengths = torch.tensor([8, 3, 1]), torch.tensor([4, 10, 1])
    mt, lm = translator(norm, positions), language_model(norm, positions)
    together = mt(source, source_lengths, target, lengths).y
    alone_lm = lm(target, lengths=lengths).y
    for b, (s, t) in enumerate(zip(source_lengths.tolist(), lengths.tolist(), strict=True)):
        alone = mt(source[b : b + 1, :s], None, target[b : b + 1, :t]).y
        assert difference(together[b : b + 1, :t], alone) < TOLERANCE
        assert difference(alone_lm[b : b + 1, :t], lm(target[b : b + 1, :t]).y) < TOLERANCE


@torch.no_grad()
def test_encoder_outputs_never_depend_on_what_stands_in_the_padding() -> None:
    net, source, lengths = translator(), ids(2, 8), torch.tensor([8, 3])
    other = source.clone()
    other[1, 3:] = (other[1, 3:] + 5) % V
    before, after = net.encode(source, lengths).y, net.encode(other, lengths).y
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1, :3], after[1, :3])
    # The control: without lengths the padding is read.
    assert difference(net.encode(other, None).y[1, :3], net.encode(source, None).y[1, :3]) > 1e-3


def test_gradient_through_carried_state_equals_that_of_the_whole() -> None:
    net, tokens = language_model(), ids(2, 8)
    weight = torch.randn(2, 8, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    expected = torch.autograd.grad((net(tokens).y * weight).sum(), list(net.parameters()))
    first, state, *_ = net(tokens[:, :3], net.init_state(2))
    second = net(tokens[:, 3:], state).y
    loss = (torch.cat([first, second], 1) * weight).sum()
    for got, want in zip(torch.autograd.grad(loss, list(net.parameters())), expected, strict=True):
        assert difference(got, want) < TOLERANCE


@pytest.mark.parametrize("options", [{}, {"d_embed": 5, "div_value": 2}, {"d_embed": D}], ids=str)
@pytest.mark.parametrize("stack", [ResidualStack, ReversibleStack])
def test_an_adaptive_vocabulary_between_tokens_and_hidden_states_of_other_widths(
    stack: type, options: dict[str, int]
) -> None:
    """Positions take a third of the channels going in; the reversible stack hands out twice as many."""
    torch.manual_seed(0)
    vocabulary = partial(AdaptiveVocabulary, size=V, cutoffs=[5, 9], tied_projections=False, **options)
    net = DecoderLM(D, 1, vocabulary, replace(blocks(PreNorm), stack=stack), POSITIONS["concatenated"])
    net, tokens = randomise(net.double().eval()), ids(3, 7)
    hidden = net(tokens).y
    nll, log_probs = net.vocabulary.nll(hidden, tokens), net.vocabulary.log_probs(hidden)
    assert net.vocabulary.embed(tokens).shape == (3, 7, D - 4)
    assert hidden.shape == (3, 7, D if stack is ResidualStack else 2 * D)
    assert difference(nll, -log_probs.gather(-1, tokens[..., None])[..., 0]) < TOLERANCE
    nll.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in net.parameters())


def test_dropout_acts_on_embedding_sums() -> None:
    torch.manual_seed(0)
    still = Blocks(
        [partial(FullAttention, n_heads=2)], partial(FeedForward, d_ff=8), partial(PostNorm, dropout=0.0)
    )
    net = DecoderLM(D, 1, partial(Vocabulary, size=V), still, dropout=0.5)
    seen: list[Tensor] = []
    net.stack.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    net(ids(4, 50))
    assert 0.4 < (seen[0] == 0).double().mean() < 0.6


def test_init_is_applied_once_to_the_whole_model() -> None:
    calls: list[nn.Module] = []
    net = EncoderDecoder(D, 1, 1, partial(Vocabulary, size=V), blocks(), init=calls.append)
    assert calls == [net]


def expected_parameters(d: int, ff: int, layers: int, v: int) -> int:
    """An encoder-decoder with biases everywhere, ``layers`` layers on each side, one shared matrix."""
    attention = 4 * d * d + 4 * d  # q, k, v and out, each with its bias
    feed_forward = d * ff + ff + ff * d + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return v * d + layers * (encoder_layer + decoder_layer)


@pytest.mark.parametrize(
    ("d", "ff", "heads", "count"), [(512, 2048, 8, 63_082_496), (1024, 4096, 16, 214_245_376)]
)
def test_parameters_of_base_and_big(d: int, ff: int, heads: int, count: int) -> None:
    with torch.device("meta"):
        net = EncoderDecoder(d, 6, 6, partial(Vocabulary, size=37_000), blocks(d_ff=ff, heads=heads))
    assert all(p.is_meta for p in net.parameters())
    assert sum(p.numel() for p in net.parameters()) == expected_parameters(d, ff, 6, 37_000) == count
    untied = partial(Vocabulary, size=37_000, tied=False)
    with torch.device("meta"):
        other = EncoderDecoder(d, 6, 6, untied, blocks(d_ff=ff, heads=heads))
    assert sum(p.numel() for p in other.parameters()) == count + 37_000 * d
