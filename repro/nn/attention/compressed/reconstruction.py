"""The error of attention over compressed vectors: the loss that trains the compression."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from repro.nn.attention.compressed.compression import Compression


def lost(
    query: Tensor,
    read: Callable[[Tensor], tuple[Tensor, ...]],
    compression: Compression,
    old: Tensor,
    blocks: Tensor,
    lengths: Tensor | None,
) -> Tensor:
    """Mean square of what attention to some inputs loses when they are compressed.

    The means are over valid queries and channels. Scores are by content alone, and no query is masked.

    Args:
        query: without gradient, ``(H, B, T, E)``.
        read: keys and values ``(H, B, S, ·)`` of entries ``(B, S, D)``, without gradient for its weights.
        compression: of rate c; the only one to receive a gradient.
        old: the inputs, ``(B, N·c, D)``.
        blocks: how many of the N blocks of each row count, ``(B,)``; they come first.
        lengths: valid queries of each row, ``(B,)``; None means all.

    Returns:
        ``(B,)``, 0 for a row of which no block counts.

    Source: Rae et al. 2020, section 3.2; a mean of squares as in the authors' code in Sonnet 1.
    """
    old = old.detach()

    def attended(entries: Tensor, count: Tensor) -> Tensor:
        key, value = read(entries)
        # At least one is seen, since a softmax of nothing has no finite gradient.
        attention_mask = torch.arange(entries.shape[1], device=old.device) < count.clamp(min=1)[:, None]
        y = scaled_dot_product_attention(query, key, value, attn_mask=attention_mask[None, :, None])
        return y.to(torch.promote_types(y.dtype, torch.float32))

    squares = (attended(old, blocks * compression.rate) - attended(compression(old), blocks)).square()
    losses = squares.mean((0, 3))
    if lengths is None:
        loss = losses.mean(1)
    else:
        valid = torch.arange(query.shape[2], device=old.device) < lengths[:, None]
        loss = (losses * valid).sum(1) / lengths.clamp(min=1)
    return torch.where(blocks > 0, loss, 0.0)
