"""Tiny float64 models with random weights for tests of decoding, and slow, obvious searches to compare with."""

import itertools
from functools import partial

import torch
from torch import Tensor, nn

from repro.models import DecoderLM, EncoderDecoder
from repro.nn import Blocks, CrossAttention, FeedForward, FullAttention, PostNorm, Vocabulary
from repro.nn.init import glorot


def _blocks() -> Blocks:
    return Blocks(
        mixers=[partial(FullAttention, n_heads=2)],
        cross=partial(CrossAttention, n_heads=2),
        feed_forward=partial(FeedForward, d_ff=16),
        sublayer=PostNorm,
    )


def _varied(model: nn.Module) -> None:
    # With fresh weights all tokens are about equally likely and a token mostly repeats itself; these scales make
    # the next token depend on the source and the whole prefix, and sentences end at many different lengths.
    glorot(model)
    for parameter in model.parameters():
        parameter.data.mul_(2.0 if parameter.dim() == 2 else 1.0)


def translator(vocab_size: int, seed: int = 0) -> EncoderDecoder:
    """In training mode, with dropout on: decoding has to turn it off."""
    torch.manual_seed(seed)
    vocabulary = partial(Vocabulary, size=vocab_size, tied=False)
    return EncoderDecoder(8, 1, 2, vocabulary, _blocks(), init=_varied).double()


def language_model(vocab_size: int, seed: int = 0) -> DecoderLM:
    """In training mode, with dropout on."""
    torch.manual_seed(seed)
    return DecoderLM(8, 2, partial(Vocabulary, size=vocab_size, tied=False), _blocks(), init=_varied).double()


def log_probs_of(model: EncoderDecoder | DecoderLM, source: list[int] | None, prefix: list[int]) -> Tensor:
    """Log-probabilities ``(T, V)`` after every token of a prefix, from one plain forward pass of one row."""
    training = model.training
    model.eval()
    with torch.no_grad():
        ids = torch.tensor([prefix])
        hidden = model(ids) if source is None else model(torch.tensor([source]), None, ids)
        model.train(training)
        return model.vocabulary.log_probs(hidden.y[0])


def log_prob(model: EncoderDecoder | DecoderLM, source: list[int] | None, prompt: list[int], new: list[int]) -> float:
    """log P of new tokens after a prompt."""
    scores = log_probs_of(model, source, [*prompt, *new[:-1]])[len(prompt) - 1 :]
    return float(scores.gather(1, torch.tensor(new)[:, None]).sum())


def every_sequence(vocab_size: int, longest: int, eos: int) -> list[list[int]]:
    """All that end in ``eos`` within ``longest`` tokens, and all of that length that do not end."""
    others = [token for token in range(vocab_size) if token != eos]
    found = [[*body, eos] for size in range(longest) for body in itertools.product(others, repeat=size)]
    return found + [list(body) for body in itertools.product(others, repeat=longest)]


def greedy_by_hand(
    model: EncoderDecoder | DecoderLM, source: list[int] | None, prompt: list[int], longest: int, eos: int | None
) -> list[int]:
    """Greedy decoding by plain forward passes, the end symbol included."""
    new: list[int] = []
    while len(new) < longest and (not new or new[-1] != eos):
        new.append(int(log_probs_of(model, source, [*prompt, *new])[-1].argmax()))
    return new
