"""A naive compressed memory: one row as Python lists of vectors, one token and head at a time; see reference.py."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.nn.reference import attend_one, project, row_length
from tests.nn.reference_compressive import compress


class Row:
    """One sequence that is fed call by call, as the mixer cuts calls into pieces.

    Args:
        mixer: gives the weights.
        in_place: a token sees its block so far, not only its piece.

    Attributes:
        waiting: inputs that have not been compressed, the oldest first.
        compressed: compressed vectors, the oldest first.
        losses: auxiliary losses of the last call, one for each block that it compressed.
    """

    def __init__(self, mixer: Any, in_place: bool = False) -> None:
        self.mixer, self.in_place = mixer, in_place
        self.waiting: list[Tensor] = []
        self.compressed: list[Tensor] = []
        self.losses: list[Tensor] = []

    def call(self, x: Tensor) -> Tensor:
        """Outputs ``(n, D)`` for new tokens ``(n, D)``."""
        self.losses, size = [], self.mixer.block
        zero = sum(0.0 * p.sum() for p in self.mixer.parameters())  # it touches every weight, used or not
        result = [self._piece(x[at : at + size]) for at in range(0, len(x), size)]
        return (torch.cat(result) if result else x) + zero

    def aux(self) -> Tensor:
        return torch.stack(self.losses).mean() if self.losses else torch.zeros(()).double()

    def _piece(self, x: Tensor) -> Tensor:
        if len(self.waiting) >= self.mixer.block:
            old, self.waiting = self.waiting[: self.mixer.block], self.waiting[self.mixer.block :]
            rate = self.mixer.compression.rate
            groups = [old[at : at + rate] for at in range(0, len(old), rate)]
            self.compressed += [compress(self.mixer.compression, group) for group in groups]
            self.compressed = self.compressed[-self.mixer.compressed_len :]
            self._note(x, groups)
        before = list(self.waiting) if self.in_place else []
        outputs = [self._attend(token, [*before, *x[:t]]) for t, token in enumerate(x)]
        self.waiting += list(x)
        return torch.stack(outputs)

    def _attend(self, token: Tensor, before: list[Tensor]) -> Tensor:
        short, result = self.mixer.short, []
        entries = torch.stack([*self.compressed, *before, token])
        for head in range(short.n_heads):
            slope = 2.0 ** (-8.0 * (head + 1) / short.n_heads)
            # The newest vector lies one further away than the oldest key of the short-term mixer.
            bias = [-slope * (len(before) + n) for n in range(len(self.compressed), 0, -1)]
            query, keys, values = self._parts(short.qkv, head, token, entries)
            lowered = torch.tensor(bias + [0.0] * (len(before) + 1), dtype=token.dtype)
            scores = torch.stack([key @ query for key in keys]) / math.sqrt(short.d_head) + lowered
            result.append(sum(w * value for w, value in zip(scores.softmax(0), values, strict=True)))
        return project(short.out, torch.cat(result)[None], 0, len(token))[0]  # type: ignore[arg-type]

    def _parts(self, qkv: Any, head: int, token: Tensor, entries: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        short = self.mixer.short
        e, ev, h = short.d_head, short.d_value, short.n_heads
        query = project(qkv, token[None], head * e, e)[0]
        return (
            query,
            project(qkv, entries, (h + head) * e, e),
            project(qkv, entries, 2 * h * e + head * ev, ev),
        )

    def _note(self, x: Tensor, groups: list[list[Tensor]]) -> None:
        """The loss of a block: by content only, with gradient for the compression only."""
        short, qkv = self.mixer.short, copy.deepcopy(self.mixer.short.qkv).requires_grad_(False)
        old = [[token.detach() for token in group] for group in groups]
        new = torch.stack([compress(self.mixer.compression, group) for group in old])
        plain = torch.stack([token for group in old for token in group])
        squares = []
        for token in x.detach():
            for head in range(short.n_heads):
                exact, short_of = (attend_one(*self._parts(qkv, head, token, each)) for each in (plain, new))
                squares.append(((exact - short_of) ** 2).mean())
        self.losses.append(self.mixer.reconstruction * torch.stack(squares).mean())


def compressed(
    mixer: Any, x: Tensor, causal: bool, lengths: Tensor | None, past: Sequence[Tensor] | None
) -> Tensor:
    """A naive loop with the arguments of :func:`tests.nn.reference.self_attention`; the past was fed in one call."""
    assert causal
    result = []
    for b, tokens in enumerate(x):
        row, n = Row(mixer), row_length(x, lengths, b)
        if past is not None:
            row.call(past[b])
        y = row.call(tokens[:n])
        result.append(torch.cat([y, tokens.new_zeros(len(tokens) - n, tokens.shape[1])]))
    return torch.stack(result)
