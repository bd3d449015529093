"""Use of context by a language model: losses after a given context, and the relative effective context length."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro.errors import UserError
from repro.models.decodable import evaluating
from repro.models.decoder_lm import DecoderLM
from repro.nn.positions.positions import longest_window
from repro.nn.settings import CallSettings, MemorySettings
from repro.tasks.evaluated import drawing_from

THRESHOLD = 0.01  # of the perplexity; appendix C of the paper
# Of the windows that are read at once: attention scores hold pairs, hidden states hold tokens.
PAIRS_AT_ONCE = 2**22
TOKENS_AT_ONCE = 2**14

Integers = np.ndarray[Any, Any]
Losses = Callable[[int], Tensor]


def losses_with_context(net: DecoderLM, tokens: Integers, places: Integers, context: int) -> Tensor:
    """``-log p`` of single tokens, each given exactly the ``context`` tokens before it.

    Every window is read by itself, without a memory: attention spans the window.

    Args:
        net: a :class:`~repro.models.DecoderLM`, in any mode; dropout is off meanwhile.
        tokens: of a split, ``(N,)`` integers.
        places: of the tokens that are scored, ``(K,)``, each at least ``context`` and below N.
        context: c, tokens read before a place, at least 1.

    Returns:
        Nats, ``(K,)`` float64 on the CPU.

    Raises:
        UserError: a context below 1 or beyond the positions that the network has learned, or a place without as many
            tokens before it.
    """
    longest = longest_window(net)
    if context < 1:
        raise UserError(f"a context must have at least 1 token, not {context}")
    if longest is not None and context > longest:
        raise UserError(f"a context of {context} tokens: the network learned {longest} positions")
    if len(places) and not context <= int(places.min()) <= int(places.max()) < len(tokens):
        raise UserError(
            f"places {places.min()} to {places.max()} of {len(tokens)} tokens do not all have {context} before them"
        )
    rows = max(1, min(TOKENS_AT_ONCE // context, PAIRS_AT_ONCE // context**2))
    device = next(net.parameters()).device
    losses = [torch.empty(0, dtype=torch.float64)]
    alone = CallSettings(memory=MemorySettings())
    with evaluating(net), drawing_from(0, device):
        for first in range(0, len(places), rows):
            window = places[first : first + rows, None] + np.arange(-context, 1)
            ids = torch.from_numpy(tokens[window].astype(np.int64)).to(device)
            hidden = net(ids[:, :-1], settings=alone).y[:, -1]
            losses.append(net.vocabulary.nll(hidden, ids[:, -1]).double().cpu())
    return torch.cat(losses)


def relative_gains(short: Tensor, long: Tensor, ratio: float) -> Tensor:
    """The share by which each model's perplexity falls below the group's best when it is given the longer context.

    With ``b(t)`` the least loss that any model of the group has with the shorter context, and T the places with the
    largest b: f is the mean over T of ``min(b(t), l_i(t))`` where ``l_i`` has the shorter context, f' where it has the
    longer one, and the gain of model i is ``(exp f - exp f') / exp f``. It is never negative, and f is the mean of b
    for every model, since no loss is below b.

    T has the whole number of places nearest to ``ratio`` of all, at least one; of places with equal b the earlier ones
    go first.

    Args:
        short: losses with context c in nats, ``(models, N)``.
        long: those with context c', alike.
        ratio: r, the share of places that count, in (0, 1].

    Returns:
        ``(models,)``.

    Source: Dai et al. 2019, appendix C.
    """
    best = short.amin(0)
    count = max(1, round(ratio * len(best)))
    hardest = best.sort(descending=True, stable=True).indices[:count]
    before = best[hardest]
    after = torch.minimum(before, long[:, hardest])
    return -torch.expm1(after.mean(1) - before.mean())


def relative_effective_context_length(
    losses: Losses, ratio: float, start: int, step: int, threshold: float = THRESHOLD, longest: int = 1000
) -> list[int]:
    """RECL: the context beyond which a model gains less than ``threshold`` over the best of its group.

    From ``c = start`` on, each model by itself: where its gain from c to ``c' = c + step`` is below the threshold, its
    RECL is c; otherwise c becomes c'. A model that still gains where the next c' would be beyond ``longest`` has the
    last c that was reached: its RECL is at least that.

    The order of models makes no difference; their choice does: lengths of different groups do not compare.

    Args:
        losses: from a context to losses in nats with it, ``(models, N)``, all at the same N places; called once
            for each context.
        ratio: r, the share of hardest places that count, in (0, 1].
        start: the first, short context, at least 1.
        step: difference between successive contexts, at least 1.
        threshold: the least gain that counts, in parts of the perplexity.
        longest: the longest context.

    Returns:
        For each model a number of tokens.

    Raises:
        UserError: a number out of range, or losses that are no table of finite numbers.

    Source: Dai et al. 2019, appendix C.
    Deviation: the printed listing goes back to the line that sets the first c and c', which would never end; what is
        meant is its body again, with the new c and c' a step further.
    """
    require_ladder(start, step, longest, (ratio,))
    table = cache(lambda context: checked(losses(context), context))
    lengths = []
    for model in range(len(table(start))):
        context = start
        while context + step <= longest:
            if float(relative_gains(table(context), table(context + step), ratio)[model]) < threshold:
                break
            context += step
        lengths.append(context)
    return lengths


def checked(table: Tensor, context: int) -> Tensor:
    """Checks losses and returns them.

    Raises:
        UserError: not ``(models, N)`` with at least one of each, or not finite.
    """
    if table.dim() != 2 or not table.numel():
        raise UserError(f"losses with context {context} must be (models, places), not {tuple(table.shape)}")
    if not bool(table.isfinite().all()):
        raise UserError(f"losses with context {context} are not all finite numbers")
    return table


def require_ladder(start: int, step: int, longest: int, ratios: Sequence[float]) -> None:
    """Refuses invalid contexts and shares.

    Raises:
        UserError: names the number.
    """
    for name, value in (("start", start), ("step", step)):
        if value < 1:
            raise UserError(f"{name} must be at least 1, not {value}")
    if longest < start + step:
        raise UserError(f"longest must be at least start and step together, {start + step}, not {longest}")
    for ratio in ratios:
        if not 0 < ratio <= 1:
            raise UserError(f"a ratio must be above 0 and at most 1, not {ratio:g}")
