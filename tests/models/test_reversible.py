"""Whole models over a reversible stack: widths, training, decoding, and how a recipe asks for one."""

from functools import partial
from typing import Any

import pytest
import torch
from jsonargparse import ArgumentParser
from torch import Tensor, nn

from repro.models import DecoderLM, EncoderDecoder
from repro.models.sampling import greedy
from repro.models.search import beam_search
from repro.nn import Blocks, CrossAttention, FeedForward, FullAttention, PreNorm, ReversibleStack, Vocabulary
from repro.nn.init import glorot
from tests.models.tiny import beam_by_hand, greedy_by_hand
from tests.nn.mixers import difference, gradients

D, V, BOS, EOS = 8, 12, 1, 2


def blocks(join: Any, dropout: float = 0.1) -> Blocks:
    return Blocks(
        mixers=[partial(FullAttention, n_heads=2)],
        cross=partial(CrossAttention, n_heads=2),
        feed_forward=partial(FeedForward, d_ff=16, chunk=3),
        sublayer=partial(PreNorm, dropout=dropout),
        final_norm=nn.LayerNorm,
        stack=partial(ReversibleStack, join=join),
    )


def varied(model: nn.Module) -> None:
    glorot(model)
    for parameter in model.parameters():
        parameter.data.mul_(2.0 if parameter.dim() == 2 else 1.0)


def translator(dropout: float = 0.1) -> EncoderDecoder:
    torch.manual_seed(0)
    vocabulary = partial(Vocabulary, size=V)  # tied
    net = EncoderDecoder(D, 2, 2, vocabulary, blocks("mean", dropout), dropout=dropout, init=varied)
    return net.double()


def language_model(dropout: float = 0.1) -> DecoderLM:
    torch.manual_seed(0)
    vocabulary = partial(Vocabulary, size=V, tied=False, scaled=False, loss_chunk=5)
    return DecoderLM(D, 2, vocabulary, blocks("concat", dropout), dropout=dropout, init=varied).double()


def ids(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


def test_the_vocabulary_is_as_wide_as_both_streams() -> None:
    net = language_model()
    assert net.vocabulary.head.proj.weight.shape == (V, 2 * D)
    assert net.stack.final_norm.weight.shape == (2 * D,)
    assert net.vocabulary.embedding.table.weight.shape == (V, D)
    assert net(ids(2, 7)).y.shape == (2, 7, 2 * D)


def test_one_matrix_cannot_serve_both_sides_of_two_streams() -> None:
    with pytest.raises(ValueError, match=r"8.*16 out"):
        DecoderLM(D, 2, partial(Vocabulary, size=V), blocks("concat"))


def test_a_decoder_cannot_attend_to_two_streams() -> None:
    with pytest.raises(ValueError, match=r"decoder reads.*8.*16: give blocks.stack `join: mean`"):
        EncoderDecoder(D, 1, 1, partial(Vocabulary, size=V), blocks("concat"))


def test_a_vocabulary_of_one_stream_cannot_read_two() -> None:
    with pytest.raises(ValueError, match=r"vocabulary reads .* 8 wide, not 16"):
        EncoderDecoder(D, 1, 1, partial(Vocabulary, size=V), blocks("mean"), decoder_blocks=blocks("concat"))


def losses(net: Any) -> Tensor:
    target = ids(2, 9, seed=2)
    if isinstance(net, DecoderLM):
        return net.vocabulary.nll(net(target[:, :-1]).y, target[:, 1:]).sum()
    mixed = net(ids(2, 6), torch.tensor([6, 3]), target[:, :-1])
    return net.vocabulary.nll(mixed.y, target[:, 1:]).sum()


@pytest.mark.parametrize("make", [language_model, translator])
def test_training_follows_plain_autograd(make: Any) -> None:
    net = make(dropout=0.0)
    loss = losses(net)
    got = gradients(loss, [], net)
    plain = losses(net.eval())  # keeps its activations
    assert difference(loss, plain) < 1e-12
    for name, grad in gradients(plain, [], net).items():
        assert difference(got[name], grad) < 1e-11, name
        assert got[name].abs().max() > 1e-4, name


@pytest.mark.parametrize("capacity", [None, 10])
@torch.no_grad()
def test_decoding_with_a_state_equals_the_whole(capacity: int | None) -> None:
    lm, mt, target = language_model().eval(), translator().eval(), ids(3, 10, seed=2)
    source, lengths = ids(3, 7), torch.tensor([7, 2, 5])
    for net, state, whole in [
        (lm, lm.init_state(3, capacity), lm(target).y),
        (mt, mt.start(source, lengths, capacity=capacity), mt(source, lengths, target).y),
    ]:
        parts = []
        for part in target.split([3, 1, 6], dim=1):
            mixed = net.decode(part, state)
            state = mixed.state
            parts.append(mixed.y)
        assert difference(torch.cat(parts, 1), whole) < 1e-12


def test_searches_find_what_they_find_without_a_state() -> None:
    net = translator()  # in training, with dropout: a search turns it off
    source, lengths = ids(4, 6, seed=3), torch.tensor([6, 2, 5, 4])
    result: set[tuple[int, ...]] = set()
    for search, by_hand in [
        (beam_search, partial(beam_by_hand, net, beam=3, alpha=0.6)),
        (greedy, partial(greedy_by_hand, net)),
    ]:
        with torch.inference_mode():
            net.eval()
            state = net.start(source, lengths, capacity=6)
            net.train()
        options = {"beam": 3, "alpha": 0.6} if search is beam_search else {}
        decoded = search(net, state, torch.full_like(lengths, BOS), 6, EOS, **options)  # type: ignore[operator]
        for row, length in enumerate(lengths.tolist()):
            prompt = BOS if search is beam_search else [BOS]
            score, new = by_hand(source[row, :length].tolist(), prompt, longest=6, eos=EOS)
            assert decoded.ids[row, : decoded.lengths[row]].tolist() == new
            assert abs(float(decoded.scores[row]) - score) < 1e-9
            result.add(tuple(new))
    assert len(result) > 3, "translations differ"


def test_a_recipe_asks_for_it_by_name() -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--blocks", type=Blocks)
    own = {
        "mixers": [{"class_path": "repro.nn.FullAttention", "init_args": {"n_heads": 2}}],
        "feed_forward": {"class_path": "repro.nn.FeedForward", "init_args": {"d_ff": 16, "chunk": 4}},
        "sublayer": "repro.nn.PreNorm",
        "final_norm": "torch.nn.LayerNorm",
    }
    kinds = {"repro.nn.ReversibleStack": 16, "repro.nn.ResidualStack": 8}
    choices: list[tuple[Any, int]] = [*kinds.items()]
    choices.append(({"class_path": "repro.nn.ReversibleStack", "init_args": {"join": "mean"}}, 8))
    for stack, width in choices:
        made = parser.instantiate_classes(parser.parse_object({"blocks": {**own, "stack": stack}})).blocks
        assert made.build(8, 2).d_out(8) == made.d_out(8) == width
