"""The interface of the short-term mixer that a continuous memory wraps."""

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import linear

from repro.nn.attention.full import split_heads
from repro.nn.settings import CallSettings, Remembers


def require_short_term(mixer: nn.Module) -> Any:
    """The mixer, if it has queries to offer.

    A short-term mixer has ``n_heads``, ``d_head`` and a linear projection ``qkv`` whose first ``n_heads · d_head``
    outputs are its queries. One that keeps earlier tokens is a :class:`~repro.nn.settings.Remembers`. An auxiliary loss
    of it would be lost.

    Raises:
        ValueError: it has not, or it learns by an auxiliary loss.
    """
    offers = isinstance(getattr(mixer, "qkv", None), nn.Linear)
    if not (offers and hasattr(mixer, "n_heads") and hasattr(mixer, "d_head")):
        raise ValueError(
            f"a continuous memory needs a short-term mixer with n_heads, d_head and qkv, not {type(mixer).__name__}"
        )
    if getattr(mixer, "learns", False):
        raise ValueError(
            f"a continuous memory drops the auxiliary loss by which the compression of {type(mixer).__name__} learns; "
            "set its reconstruction: 0, or take a compression without weights"
        )
    return mixer


def queries(mixer: Any, x: Tensor) -> Tensor:
    """The mixer's queries for ``x (B, T, D)``, without its positions: ``(B, T, H, E)``."""
    width, bias = mixer.n_heads * mixer.d_head, mixer.qkv.bias
    return split_heads(
        linear(x, mixer.qkv.weight[:width], None if bias is None else bias[:width]), mixer.n_heads
    )


def remembered(mixer: nn.Module, settings: CallSettings) -> int:
    """Tokens of earlier calls that the mixer sees; 0 for one without memory settings, which is kept to its block."""
    return (settings.memory or mixer.memory).mem_len if isinstance(mixer, Remembers) else 0
