"""Naive loops for the Compressive Transformer: one row as Python lists of vectors; see tests/nn/reference.py."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repro.nn import PreNorm
from repro.nn.attention.compressed.attention import CompressiveAttention
from repro.nn.attention.compressed.compression import Compression, ConvolutionCompression, MeanCompression
from repro.nn.settings import MemorySettings
from tests.nn.reference import attend_one, project
from tests.nn.reference_relative import relative, told

EVERYTHING = 10**6


def covering(
    mixer: CompressiveAttention,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """While nothing has left the memory: :func:`tests.nn.reference_relative.relative`."""
    assert past is None or all(len(row) <= mixer.memory.mem_len for row in past)
    unused = sum(0.0 * parameter.sum() for parameter in mixer.compression.parameters())
    return relative(mixer, x, causal, lengths, past) + unused


def compress(compression: Compression, block: Sequence[Tensor]) -> Tensor:
    """One vector of a block of ``rate`` vectors ``(D,)``."""
    if isinstance(compression, ConvolutionCompression):
        weight = compression.convolution.weight
        return sum((weight[:, :, i] @ vector for i, vector in enumerate(block)), torch.zeros_like(block[0]))
    channels = []
    for values in zip(*block, strict=True):
        mean = isinstance(compression, MeanCompression)
        channels.append(sum(values) / len(values) if mean else max(values))
    return torch.stack(channels)  # type: ignore[arg-type]


class Row:
    """One row of a batch: what it remembers, and what a call makes of it.

    Args:
        made: the mixer, or a pre-norm sublayer around it.
        settings: of the memory; the mixer's own where None.

    Attributes:
        memory: inputs that have not been compressed, the oldest first.
        compressed: entries of the compressed memory, the oldest first.
    """

    def __init__(self, made: Any, settings: MemorySettings | None = None) -> None:
        self.made = made
        self.mixer: CompressiveAttention = made.body if isinstance(made, PreNorm) else made
        self.settings = settings or self.mixer.memory
        self.memory: list[Tensor] = []
        self.compressed: list[Tensor] = []

    def call(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs ``(T, D)`` for inputs ``x (T, D)`` of one call, and its weighted auxiliary loss, a scalar."""
        entries = [token[None] for token in (*self.compressed, *self.memory)]
        past = self._normed(torch.cat([x[:0], *entries]))
        mixer = told(self.mixer, MemorySettings(EVERYTHING, self.settings.clamp_len))
        y = relative(mixer, self._normed(x)[None], True, None, [past])[0]
        loss = self._remember(x)
        return (x + y if isinstance(self.made, PreNorm) else y), loss

    def _remember(self, x: Tensor) -> Tensor:
        rate, old, new = self.mixer.compression.rate, [], []
        self.memory.extend(x)
        while len(self.memory) - self.settings.mem_len >= rate:
            block, self.memory = self.memory[:rate], self.memory[rate:]
            old += [token.detach() for token in block]
            new.append(compress(self.mixer.compression, old[-rate:]))
            self.compressed.append(compress(self.mixer.compression, block))
        self.compressed = self.compressed[-self.mixer.compressed_len :]
        if not new:
            return x.new_zeros(())
        queries, total = self._normed(x).detach(), x.new_zeros(())
        for head in range(self.mixer.n_heads):
            for token in queries:
                gap = self._content(head, token, torch.stack(old)) - self._content(
                    head, token, torch.stack(new)
                )
                total = total + (gap**2).sum()
        return self.mixer.reconstruction * total / (len(queries) * self.mixer.n_heads * self.mixer.d_head)

    def _content(self, head: int, token: Tensor, entries: Tensor) -> Tensor:
        width, hidden = self.mixer.d_head, self.mixer.n_heads * self.mixer.d_head
        qkv = torch.nn.Linear(1, 1, bias=False)
        qkv.weight = torch.nn.Parameter(self.mixer.qkv.weight.detach(), requires_grad=False)
        seen = self._normed(entries, frozen=True)
        key, value = (project(qkv, seen, n * hidden + head * width, width) for n in (1, 2))
        return attend_one(project(qkv, token[None], head * width, width)[0], key, value)

    def _normed(self, x: Tensor, frozen: bool = False) -> Tensor:
        if not isinstance(self.made, PreNorm):
            return x
        norm: Any = self.made.norm_in
        gain, shift = (t.detach() if frozen else t for t in (norm.weight, norm.bias))
        centred = x - x.mean(-1, keepdim=True)
        return centred / ((centred**2).mean(-1, keepdim=True) + norm.eps).sqrt() * gain + shift


def by_loop(
    made: Any, given: Sequence[Tensor], takes: Sequence[Sequence[int]], settings: MemorySettings | None = None
) -> tuple[list[Tensor], list[Tensor], list[Row]]:
    """Every call of ragged rows.

    Returns:
        Each row's outputs ``(L_b, D)``, each call's auxiliary losses ``(B,)``, and the rows as they are at the end.
    """
    rows, at = [Row(made, settings) for _ in given], [0] * len(given)
    outputs: list[list[Tensor]] = [[] for _ in given]
    losses = []
    for take in takes:
        loss = [given[b].new_zeros(()) for b in range(len(given))]
        for b, n in enumerate(take):
            if n:
                y, loss[b] = rows[b].call(given[b][at[b] : at[b] + n])
                outputs[b].append(y)
            at[b] += n
        losses.append(torch.stack(loss))
    return [torch.cat(parts) for parts in outputs], losses, rows
