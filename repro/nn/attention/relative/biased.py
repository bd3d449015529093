"""Softmax attention by content and distance through PyTorch's fused attention, with the distances as a bias."""

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention


def attend_with_bias(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    place_query: Tensor,
    place_key: Tensor,
    memory_mask: Tensor | None,
    window: int | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """The function of :func:`repro.nn.attention.relative.shift.attend_by_distance`, for GPUs and compiled graphs.

    The scores by distance exist as a whole; those by content and the probabilities only where PyTorch has no fused
    kernel. In low precision a fused kernel adds both kinds of scores in float32.

    Args:
        query: ``(H, B, T, E)``.
        key: ``(H, B, S, E)``, the keys of this call last.
        value: ``(H, B, S, E)``.
        place_query: ``(H, B, T, P)``.
        place_key: ``(H, S, P)``; row t belongs to distance ``S-1-t``.
        memory_mask: which of the first ``S - T`` keys are valid, ``(B, S - T)``; None where all are.
        window: keys at this distance and beyond are hidden; None hides none.
        scale: of the scores.
        dropout: on the probabilities, in [0, 1).

    Returns:
        ``(H, B, T, E)``.
    """
    steps, size = query.shape[2], key.shape[2]
    place = place_query @ (place_key * scale).transpose(1, 2)[:, None]
    # One more column moves row i by T-1-i places once rows are read S apart: Dai et al. 2019, appendix B.
    widened = pad(place, (1, 0)).reshape(*place.shape[:2], size + 1, steps)
    bias = widened[:, :, 1:].reshape(place.shape)
    keys = torch.arange(size, device=query.device)
    back = torch.arange(size - steps, size, device=query.device)[:, None] - keys
    visible = back >= 0 if window is None else (back >= 0) & (back < window)
    if memory_mask is not None:
        visible = visible & pad(memory_mask, (0, steps), value=True)[:, None]
    bias = bias.masked_fill(~visible, -torch.inf)
    return scaled_dot_product_attention(query, key, value, bias, dropout, scale=scale)
