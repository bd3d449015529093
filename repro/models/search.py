"""Beam search over carried state."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from repro.models.decodable import (
    Decodable,
    Decoded,
    compact,
    decoded,
    row_limits,
    step,
    stepping,
    store,
    top,
)
from repro.nn.mixer import State, reorder

LengthForm = Literal["vaswani", "power"]


def beam_search(
    model: Decodable,
    state: State,
    first: Tensor,
    max_new: int | Tensor,
    eos: int | None,
    beam: int = 4,
    alpha: float = 0.6,
    length_form: LengthForm = "vaswani",
    min_length: int = 0,
    forbidden: Sequence[int] = (),
    n_best: int = 1,
) -> Decoded:
    """The best sequences found for each row, by log P over a penalty of their length, the end symbol counted.

    At each step, those of a sentence's ``beam`` best continuations that end are finished, and its ``beam``
    best that do not end live on. A hypothesis at its longest length is finished as it stands. A sentence
    stops when no live hypothesis can beat its ``n_best``-th finished one at any length it may still reach. Of
    equal scores the earlier finished wins, then the lower beam, then the lower token id.

    Args:
        model: in any mode; dropout is off meanwhile.
        state: B rows in stream and memory, with a capacity of at least max_new; consumed.
        first: last token of each prompt, ``(B,)``.
        max_new: most new tokens, one number or ``(B,)``, the end symbol counted; at least 1.
        eos: the end symbol, or None where there is none.
        beam: hypotheses that live at a time, at least 1.
        alpha: strength of the length penalty, at least 0; 0 maximises log P.
        length_form: of the length penalty; see :func:`length_penalty`.
        min_length: new tokens that must come before the end symbol, at least 0.
        forbidden: tokens that are never chosen.
        n_best: N, sequences returned for each row, 1 to ``beam``.

    Returns:
        ``B·N`` rows: N consecutive ones for each of the prompts, best first. Where fewer were found the last
        have no tokens and a score of -inf.

    Raises:
        ValueError: max_new, beam, alpha, length_form, min_length or n_best is out of range.
        FloatingPointError: the model's outputs are not numbers, or every continuation is forbidden.

    Source: Vaswani et al. 2017, section 6.1; Wu et al. 2016, equation 14, without the coverage penalty;
        ``SequenceGenerator`` of fairseq 0.9.
    Deviation: tensor2tensor lets any of the 2·beam best continuations end; here, as in fairseq, the beam best,
        so that a beam of 1 finds what greedy decoding finds (alpha 0).
    Deviation: fairseq ends a sentence once ``beam`` hypotheses are finished, though one that lives may yet
        score higher, and its longest ones must have the end symbol. The score at each rank is never lower here,
        and where it is equal, so is the sequence, but for ties.
    """
    check_search(beam, alpha, min_length, n_best)
    limits, longest = row_limits(max_new, first)
    never = first.new_tensor(list(forbidden))
    early = never if eos is None else first.new_tensor([*forbidden, eos])
    with stepping(model, longest):
        rows = torch.arange(first.shape[0], device=first.device).repeat_interleave(beam)
        state = {**state, "stream": reorder(state["stream"], rows)}
        log_probs, state = step(model, first.repeat_interleave(beam), state)
        lengths = torch.arange(1, longest + 1, dtype=log_probs.dtype, device=first.device)
        penalty = length_penalty(lengths, alpha, length_form)
        search = _Beams(limits, penalty, beam, n_best, -1 if eos is None else eos)
        while True:
            # in place: nothing else reads what a step has made
            log_probs.index_fill_(1, early if search.length < min_length else never, -torch.inf)
            parents, keep = search.advance(log_probs)
            if search.done:
                return search.result()
            if parents is not None:
                state = {**state, "stream": reorder(state["stream"], parents)}
            if keep is not None:
                state = {**state, "memory": reorder(state["memory"], keep)}
            log_probs, state = step(model, search.last, state)


def length_penalty(lengths: Tensor, alpha: float, form: LengthForm) -> Tensor:
    """Returns the divisor of log P of sequences of ``lengths`` tokens; it never falls with the length.

    Args:
        lengths: at least 1, floating point, any shape.
        alpha: at least 0.
        form: ``vaswani``: ``((5 + length) / 6)^alpha``; ``power``, fairseq's: ``length^alpha``.

    Raises:
        ValueError: another form.
    """
    if form not in get_args(LengthForm):
        raise ValueError(f"length_form must be one of {', '.join(get_args(LengthForm))}, not {form!r}")
    return ((5 + lengths) / 6 if form == "vaswani" else lengths) ** alpha


def check_search(beam: int, alpha: float, min_length: int, n_best: int = 1, max_ratio: float = 1.0) -> None:
    """Refuses settings of :func:`beam_search` or of a translation out of their range.

    Raises:
        ValueError: names the setting.
    """
    if beam < 1:
        raise ValueError(f"beam must be at least 1, not {beam}")
    if not 0 <= alpha < float("inf"):
        raise ValueError(f"alpha must be at least 0 and finite, not {alpha}")
    if min_length < 0:
        raise ValueError(f"min_length must be at least 0, not {min_length}")
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best must be 1 to beam, which is {beam}, not {n_best}")
    if not 0 <= max_ratio < float("inf"):
        raise ValueError(f"max_ratio must be at least 0 and finite, not {max_ratio}")


class _Beams:
    """Bookkeeping of a beam search: B sentences of K live hypotheses, and the N best finished ones of each."""

    def __init__(self, limits: Tensor, penalty: Tensor, beam: int, n_best: int, eos: int) -> None:
        batch, longest = limits.shape[0], penalty.shape[0]
        self.beam, self.n_best, self.eos, self.penalty = beam, n_best, eos, penalty
        self.length = 0  # of the live hypotheses
        self.done = False
        ids = torch.zeros(batch, longest, dtype=torch.long, device=limits.device)
        nothing = penalty.new_full((batch, n_best), -torch.inf)
        self.best = {
            "ids": ids[:, None].repeat(1, n_best, 1),
            "lengths": torch.zeros_like(nothing, dtype=torch.long),
            "log_probs": nothing,
            "scores": nothing,
        }
        self.found = {name: value.clone() for name, value in self.best.items()}
        total = penalty.new_full((batch, beam), -torch.inf)
        total[:, 0] = 0.0  # all beams are equal at first: only one may be continued
        self.live = {
            "row": torch.arange(batch, device=limits.device),
            "limit": limits,
            "ids": ids[:, None].repeat(1, beam, 1),
            "total": total,
            "open": torch.ones_like(limits, dtype=torch.bool),
        }

    @property
    def last(self) -> Tensor:
        """Newest token of every live hypothesis, ``(B·K,)``."""
        return self.live["ids"][:, :, self.length - 1].flatten()

    def advance(self, log_probs: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Takes one step with ``log_probs (B·K, V)``.

        Returns:
            For each hypothesis from now on, the one it continues, ``(B'·K,)``; and the sentences that are
            still in the batch, ``(B',)``. None stands for: all, as they were.
        """
        total, parent, token = self._candidates(log_probs)
        self.length += 1
        ends = token == self.eos
        self._finish(total, parent, token, ends)
        going_on = ends.sort(dim=1, stable=True).indices[:, : self.beam]
        total, parent, token = (_take(t, going_on) for t in (total, parent, token))
        self.live["total"] = total
        self.live["ids"] = _take(self.live["ids"], parent)
        self.live["ids"][:, :, self.length - 1] = token
        return self._close(parent)

    def _candidates(self, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2K best continuations: log-probability, beam, token; each ``(B, 2K)``, best first."""
        n = min(2 * self.beam, log_probs.shape[-1])
        value, token = top(log_probs, n)
        value, token = (t.view(-1, self.beam, n) for t in (value, token))
        total = (self.live["total"][:, :, None] + value).flatten(1)
        total, place = total.sort(dim=1, descending=True, stable=True)
        total, place = total[:, : 2 * self.beam], place[:, : 2 * self.beam]
        return total, place // n, token.flatten(1).gather(1, place)

    def _finish(self, total: Tensor, parent: Tensor, token: Tensor, ends: Tensor) -> None:
        """Enters those of the K best continuations that are finished at this length among the N best so far."""
        total, parent, token, ends = (t[:, : self.beam] for t in (total, parent, token, ends))
        finished = (ends | (self.live["limit"] <= self.length)[:, None]) & self.live["open"][:, None]
        ids = _take(self.live["ids"], parent)
        ids[:, :, self.length - 1] = token
        scores = (total / self.penalty[self.length - 1]).where(finished, -torch.inf)
        new = {
            "ids": ids,
            "lengths": torch.full_like(parent, self.length),
            "log_probs": total,
            "scores": scores,
        }
        both = {name: torch.cat([old, new[name]], dim=1) for name, old in self.best.items()}
        places = both["scores"].sort(dim=1, descending=True, stable=True).indices[:, : self.n_best]
        self.best = {name: _take(values, places) for name, values in both.items()}

    def _close(self, parent: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Closes sentences that cannot improve, and drops closed ones from the batch from time to time."""
        live, own = self.live, torch.arange(self.beam, device=parent.device)
        # log P only falls and the penalty only grows, so no continuation scores more than this.
        bound = live["total"][:, 0] / self.penalty[live["limit"] - 1]
        live["open"] = live["open"] & (live["limit"] > self.length) & (bound > self.best["scores"][:, -1])
        moved = (parent != own).any(1) & live["open"]
        # The step's only synchronisation of host and device.
        count, moves = torch.stack([live["open"].sum(), moved.sum()]).tolist()
        keep = compact(live["open"], count)
        if keep is not None:
            store(self.found, live["row"], self.best)
            self.done = count == 0
            self.live, self.best = reorder(live, keep), reorder(self.best, keep)
        elif not moves:
            return None, None
        sentences = torch.arange(parent.shape[0], device=parent.device) if keep is None else keep
        return (sentences[:, None] * self.beam + parent[sentences]).flatten(), keep

    def result(self) -> Decoded:
        """The hypotheses that were found, once the search has ended."""
        return decoded({name: values.flatten(0, 1) for name, values in self.found.items()}, self.n_best)


def _take(values: Tensor, places: Tensor) -> Tensor:
    """Entries ``places (B, N)`` of axis 1 of ``values``, ``(B, K)`` or ``(B, K, L)``."""
    if values.dim() == 3:
        places = places[:, :, None].expand(-1, -1, values.shape[2])
    return values.gather(1, places)
