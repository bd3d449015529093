"""Token ids from source sentences or prompts, for translation and text generation.

The searches themselves (:func:`greedy`, :func:`sample`, :func:`beam_search`) start from a state and know
neither kind of model; see :mod:`repro.models.decodable`.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from repro.models.decodable import Decoded, Search, evaluating
from repro.models.decoder_lm import DecoderLM
from repro.models.encoder_decoder import EncoderDecoder
from repro.models.sampling import greedy
from repro.models.search import LengthForm, beam_search, check_search
from repro.nn.mixer import MixerOutput, State
from repro.nn.positions.positions import longest_window
from repro.nn.settings import AS_BUILT, CallSettings


class _Bound:
    """A language model that decodes under given settings: what a search drives."""

    def __init__(self, model: DecoderLM, settings: CallSettings) -> None:
        self.model = model
        self.settings = settings
        self.vocabulary = model.vocabulary

    def modules(self) -> Iterator[nn.Module]:
        return self.model.modules()

    def decode(self, ids: Tensor, state: State, lengths: Tensor | None = None) -> MixerOutput:
        return self.model.decode(ids, state, lengths, self.settings)


class Hypotheses(NamedTuple):
    """The best hypothesis for each input; of an n-best search N consecutive ones, best first.

    Attributes:
        ids: new token ids, special symbols left out.
        scores: log-probability in nats over the length penalty, where the search has one; -inf where fewer than
            N hypotheses were found.
    """

    ids: list[list[int]]
    scores: list[float]


def translate(
    model: EncoderDecoder,
    source: Tensor,
    lengths: Tensor | None,
    bos: int,
    eos: int,
    pad: int,
    beam: int = 4,
    alpha: float = 0.6,
    max_extra: int = 50,
    max_ratio: float = 1.0,
    length_form: LengthForm = "vaswani",
    min_length: int = 0,
    n_best: int = 1,
) -> Hypotheses:
    """Translates by beam search; padding is never chosen.

    Args:
        model: in any mode; dropout is off meanwhile.
        source: token ids ``(B, S)`` on the model's device, padding on the right.
        lengths: valid tokens of each source, ``(B,)``, at least 1; None means all S.
        bos: begins every target.
        eos: ends it.
        pad: fills up rows; like ``bos`` and ``eos`` left out of the result.
        beam: hypotheses that live at a time, at least 1.
        alpha: strength of the length penalty, at least 0.
        max_extra: a target has at most ``max_ratio`` times the tokens of its source and these, rounded down,
            the end symbols counted; but one token in any case, and no more than learned positions.
        max_ratio: at least 0.
        length_form, min_length, n_best: as for :func:`beam_search`.

    Raises:
        ValueError: a source is empty or has more tokens than learned positions, or an argument is out of range.
        FloatingPointError: the model's outputs are not numbers.

    Source: Vaswani et al. 2017, section 6.1; ``max_len_a`` of fairseq is ``max_ratio`` here, and ``max_len_b``,
        which does not count the end symbol, is ``max_extra - 1``.
    Deviation: fairseq multiplies the length of the longest source of the batch; here each has its own limit.
    """
    check_search(beam, alpha, min_length, n_best, max_ratio)
    if not source.shape[0]:
        return Hypotheses([], [])
    sizes = [source.shape[1]] * source.shape[0] if lengths is None else lengths.tolist()
    if min(sizes) < 1:
        raise ValueError(f"source {sizes.index(min(sizes))} has length {min(sizes)}; leave empty sources out")
    window = longest_window(model)
    if window is not None and max(sizes) > window:
        raise ValueError(f"a source has {max(sizes)} tokens, the network learns {window} positions only")
    limits = [min(max(int(size * max_ratio + max_extra), 1), window or sys.maxsize) for size in sizes]
    with evaluating(model):
        state = model.start(source, lengths, capacity=max(limits))
        first, max_new = source.new_full((source.shape[0],), bos), source.new_tensor(limits)
        options = (beam, alpha, length_form, min_length, (pad,), n_best)
        return _texts(beam_search(model, state, first, max_new, eos, *options), {bos, eos, pad})


def continue_prompt(
    model: DecoderLM,
    prompts: Sequence[Sequence[int]],
    max_new: int,
    eos: int | None = None,
    search: Search = greedy,
    settings: CallSettings = AS_BUILT,
) -> Hypotheses:
    """Continues prompts of any lengths, all in one batch.

    Args:
        model: in any mode; dropout is off meanwhile.
        prompts: token ids, at least one each.
        max_new: most new tokens, the end symbol counted; at least 1.
        eos: the end symbol, left out of the result; None where there is none.
        search: :func:`greedy`, or :func:`sample` or :func:`beam_search` with their options bound by
            ``functools.partial``.
        settings: under which prompts are read and continued.

    Returns:
        The new tokens only.

    Raises:
        ValueError: a prompt is empty, more of it and its continuation is read than there are learned positions, or an
            argument is out of range.
        FloatingPointError: the model's outputs are not numbers.
    """
    if not prompts:
        return Hypotheses([], [])
    if max_new < 1:
        raise ValueError(f"max_new must be at least 1, not {max_new}")
    sizes = [len(prompt) for prompt in prompts]
    if min(sizes) < 1:
        raise ValueError(f"prompt {sizes.index(0)} is empty; give at least one token")
    longest, device = max(sizes), next(model.parameters()).device
    window = longest_window(model)
    read = longest + max_new - 1  # the last new token is not
    if window is not None and read > window:
        raise ValueError(
            f"{read} tokens of prompt and continuation are read, the network learns {window} positions only; lower "
            "max_new"
        )
    ids = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=device)
    lengths = torch.tensor(sizes, device=device) - 1  # the last token is the first one to be fed
    bound = _Bound(model, settings)
    with evaluating(model):
        state = model.init_state(len(prompts), read, settings)
        if longest > 1:
            state = bound.decode(ids[:, :-1], state, lengths).state
        first = ids.gather(1, lengths[:, None]).squeeze(1)
        return _texts(search(bound, state, first, max_new, eos), set() if eos is None else {eos})


def _texts(best: Decoded, special: set[int]) -> Hypotheses:
    rows = zip(best.ids.tolist(), best.lengths.tolist(), strict=True)
    ids = [[token for token in row[:length] if token not in special] for row, length in rows]
    return Hypotheses(ids, best.scores.tolist())
