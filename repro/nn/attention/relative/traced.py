"""Softmax attention by content and distance in operations that ``torch.compile`` can trace."""

import torch
from torch import Tensor
from torch.nn.functional import pad


def attend_traced(
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
    """A form of :func:`repro.nn.attention.relative.shift.attend_by_distance` that dynamo can trace.

    All scores exist at a time; a compiler joins the shift, the mask and the softmax.

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
    place = place_query @ place_key.transpose(1, 2)[:, None]
    # One more column moves row i by T-1-i places once rows are read S apart: Dai et al. 2019, appendix B.
    widened = pad(place, (1, 0)).reshape(*place.shape[:2], size + 1, steps)
    scores = (query @ key.transpose(2, 3) + widened[:, :, 1:].reshape(place.shape)) * scale
    keys = torch.arange(size, device=query.device)
    back = torch.arange(size - steps, size, device=query.device)[:, None] - keys
    seen = back >= 0 if window is None else (back >= 0) & (back < window)
    if memory_mask is not None:
        seen = seen & pad(memory_mask, (0, steps), value=True)[:, None]
    weights = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1, dtype=scores.dtype)
    if dropout:
        keep = torch.empty_like(weights, dtype=torch.bool).bernoulli_(1.0 - dropout)
        weights = weights * keep / (1.0 - dropout)
    return weights @ value
