"""Beam search over carried state."""

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


def beam_search(
    model: Decodable,
    state: State,
    first: Tensor,
    max_new: int | Tensor,
    eos: int | None,
    beam: int = 4,
    alpha: float = 0.6,
) -> Decoded:
    """The best sequence found for each row, by ``log P / ((5 + length) / 6)^alpha``, the end symbol counted.

    At each step, those of a sentence's ``beam`` best continuations that end are finished, and its ``beam``
    best that do not end live on. A hypothesis at its longest length is finished as it stands. A sentence
    stops when no live hypothesis can beat its best finished one at any length it may still reach. Of equal
    scores the lower beam wins, then the lower token id.

    Args:
        model: in any mode; dropout is off meanwhile.
        state: B rows in stream and memory, with a capacity of at least max_new; consumed.
        first: last token of each prompt, ``(B,)``.
        max_new: most new tokens, one number or ``(B,)``, the end symbol counted; at least 1.
        eos: the end symbol, or None where there is none.
        beam: hypotheses that live at a time, at least 1.
        alpha: strength of the length penalty, at least 0; 0 maximises log P.

    Raises:
        ValueError: max_new, beam or alpha is out of range.
        FloatingPointError: the model's outputs are not numbers.

    Source: Vaswani et al. 2017, section 6.1; Wu et al. 2016, equation 14, without the coverage penalty.
    Deviation: tensor2tensor lets any of the 2·beam best continuations end; here the beam best, so that a beam
        of 1 finds what greedy decoding finds (alpha 0).
    """
    if beam < 1:
        raise ValueError(f"beam must be at least 1, not {beam}")
    if not 0 <= alpha < float("inf"):
        raise ValueError(f"alpha must be at least 0 and finite, not {alpha}")
    limits, longest = row_limits(max_new, first)
    with stepping(model, longest):
        rows = torch.arange(first.shape[0], device=first.device).repeat_interleave(beam)
        state = {**state, "stream": reorder(state["stream"], rows)}
        log_probs, state = step(model, first.repeat_interleave(beam), state)
        search = _Beams(limits, longest, beam, -1 if eos is None else eos, alpha, log_probs.dtype)
        while True:
            parents, keep = search.advance(log_probs)
            if search.done:
                return decoded(search.found)
            if parents is not None:
                state = {**state, "stream": reorder(state["stream"], parents)}
            if keep is not None:
                state = {**state, "memory": reorder(state["memory"], keep)}
            log_probs, state = step(model, search.last, state)


class _Beams:
    """Bookkeeping of a beam search: B sentences of K live hypotheses, and the best finished one of each."""

    def __init__(
        self, limits: Tensor, longest: int, beam: int, eos: int, alpha: float, dtype: torch.dtype
    ) -> None:
        batch, device = limits.shape[0], limits.device
        self.beam, self.eos = beam, eos
        self.length = 0  # of the live hypotheses
        self.done = False
        ids = torch.zeros(batch, longest, dtype=torch.long, device=device)
        nothing = torch.full((batch,), -torch.inf, dtype=dtype, device=device)
        self.best = {"ids": ids, "lengths": torch.zeros_like(limits), "log_probs": nothing, "scores": nothing}
        self.found = {name: value.clone() for name, value in self.best.items()}
        lengths = torch.arange(1, longest + 1, dtype=dtype, device=device)
        self.penalty = ((5 + lengths) / 6) ** alpha
        total = nothing[:, None].repeat(1, beam)
        total[:, 0] = 0.0  # all beams are equal at first: only one may be continued
        self.live = {
            "row": torch.arange(batch, device=device),
            "limit": limits,
            "ids": ids[:, None].repeat(1, beam, 1),
            "total": total,
            "open": torch.ones(batch, dtype=torch.bool, device=device),
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
        parent, token = parent.gather(1, going_on), token.gather(1, going_on)
        self.live["total"] = total.gather(1, going_on)
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
        """Keeps the best hypothesis that is finished at this length, where it beats the best so far."""
        finished = ends | (self.live["limit"] <= self.length)[:, None]
        place = finished[:, : self.beam].int().argmax(1, keepdim=True)  # sorted: the first is the best
        reached = total.gather(1, place).squeeze(1)
        score = reached / self.penalty[self.length - 1]
        better = finished.gather(1, place).squeeze(1) & (score > self.best["scores"]) & self.live["open"]
        ids = _take(self.live["ids"], parent.gather(1, place)).squeeze(1)
        ids[:, self.length - 1] = token.gather(1, place).squeeze(1)
        new = {"ids": ids, "lengths": torch.full_like(self.best["lengths"], self.length)}
        new |= {"log_probs": reached, "scores": score}
        for name, old in self.best.items():
            self.best[name] = torch.where(better[:, None] if old.dim() == 2 else better, new[name], old)

    def _close(self, parent: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Closes sentences that cannot improve, and drops closed ones from the batch from time to time."""
        live, own = self.live, torch.arange(self.beam, device=parent.device)
        # log P only falls and the penalty only grows, so no continuation scores more than this.
        bound = live["total"][:, 0] / self.penalty[live["limit"] - 1]
        live["open"] = live["open"] & (live["limit"] > self.length) & (bound > self.best["scores"])
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


def _take(values: Tensor, beams: Tensor) -> Tensor:
    """Entries ``beams (B, N)`` of axis 1 of ``values (B, K, L)``."""
    return values.gather(1, beams[:, :, None].expand(-1, -1, values.shape[2]))
