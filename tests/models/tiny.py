"""Tiny float64 models with random weights for tests of decoding, and slow, obvious searches to compare."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from repro.models import DecoderLM, EncoderDecoder
from repro.models.search import LengthForm
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
    # With fresh weights a token mostly repeats itself; these scales make the next one depend on the source
    # and the whole prefix, and sentences end at many different lengths.
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


def log_probs_of(
    model: EncoderDecoder | DecoderLM, source: list[int] | None, prefixes: list[list[int]]
) -> Tensor:
    """Log-probabilities ``(N, T, V)`` after every token of N prefixes of one length, by one plain pass."""
    training = model.training
    model.eval()
    with torch.no_grad():
        ids = torch.tensor(prefixes)
        hidden = model(ids) if source is None else model(torch.tensor([source] * len(prefixes)), None, ids)
        model.train(training)
        return model.vocabulary.log_probs(hidden.y)


def every_sequence(
    model: EncoderDecoder | DecoderLM, source: list[int] | None, prompt: list[int], longest: int, eos: int
) -> list[tuple[float, list[int]]]:
    """log P and tokens of all that end within ``longest`` tokens, and all of that length that do not."""
    others = [token for token in range(model.vocabulary.size) if token != eos]
    result = []
    for size in range(1, longest + 1):
        last = [eos] if size < longest else [eos, *others]
        news = [[*body, end] for body in itertools.product(others, repeat=size - 1) for end in last]
        scores = log_probs_of(model, source, [[*prompt, *new[:-1]] for new in news])[:, len(prompt) - 1 :]
        totals = scores.gather(2, torch.tensor(news)[:, :, None]).sum((1, 2))
        result += list(zip(totals.tolist(), news, strict=True))
    return result


def greedy_by_hand(
    model: EncoderDecoder | DecoderLM,
    source: list[int] | None,
    prompt: list[int],
    longest: int,
    eos: int | None,
) -> tuple[float, list[int]]:
    """Greedy decoding by plain forward passes: log P and tokens, the end symbol included."""
    total, new = 0.0, []
    while len(new) < longest and (not new or new[-1] != eos):
        scores = log_probs_of(model, source, [[*prompt, *new]])[0, -1]
        new.append(int(scores.argmax()))
        total += float(scores.max())
    return total, new


def beam_by_hand(
    model: EncoderDecoder, source: list[int], bos: int, longest: int, eos: int, beam: int, alpha: float
) -> tuple[float, list[int]]:
    """The best of :func:`beams_by_hand` with the usual penalty."""
    return beams_by_hand(model, source, bos, longest, eos, beam, PENALTIES["vaswani"], alpha)[0]


PENALTIES: dict[LengthForm, Callable[[int, float], float]] = {
    "vaswani": lambda length, alpha: ((5 + length) / 6) ** alpha,
    "power": lambda length, alpha: length**alpha,
}


def beams_by_hand(
    model: EncoderDecoder,
    source: list[int],
    bos: int,
    longest: int,
    eos: int,
    beam: int,
    penalty: Callable[[int, float], float],
    alpha: float,
    min_length: int = 0,
    forbidden: Sequence[int] = (),
    enough: int | None = None,
) -> list[tuple[float, list[int]]]:
    """Beam search over lists, by plain passes: score and tokens of all that finished, best first.

    It never stops early, but with ``enough`` as soon as so many are finished, like fairseq.
    """
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, longest + 1):
        scores = log_probs_of(model, source, [[bos, *new] for _, new in live])[:, -1].tolist()
        grown = [
            (total + score, [*new, token])
            for (total, new), row in zip(live, scores, strict=True)
            for token, score in enumerate(row)
            if token not in forbidden and not (token == eos and length <= min_length)
        ]
        grown.sort(key=lambda pair: -pair[0])
        over = penalty(length, alpha)
        finished += [(p / over, new) for p, new in grown[:beam] if new[-1] == eos or length == longest]
        live = [(p, new) for p, new in grown if new[-1] != eos][:beam]
        if enough is not None and len(finished) >= enough:
            break
    return sorted(finished[:enough], key=lambda pair: -pair[0])
