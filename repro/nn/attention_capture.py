"""Captures attention weights from outside while a network computes, without changes to mixers."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


@contextmanager
def capture_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collects the weights of softmax attention of all calls of a model.

    Only calls of torch's fused attention are captured: exact attention in evaluation. Linear attention, and hashed
    attention where buckets decide, compute otherwise and are not captured.

    Args:
        model: any module.

    Yields:
        By the name of the module that attends, the weights of its last fused call; filled as modules are called, in the
        order of their calls. ``(B, H, T, S)`` for full and cross-attention. Others have tables of another shape: local
        attention one for each chunk, relative attention ``(heads, B, rows, S)`` for some heads and rows, hashed
        attention without the first token where causality hides each token from itself.
    """
    captured: dict[str, Tensor] = {}
    with on_attention(model, lambda name, weights: captured.update({name: weights})):
        yield captured


@contextmanager
def on_attention(model: nn.Module, callback: Callable[[str, Tensor], object]) -> Iterator[None]:
    """Passes every table of weights that :func:`capture_attention` collects, with its module's name, to a function."""
    inside: list[str] = []

    def enter(name: str, *_: object) -> None:
        inside.append(name)

    def leave(*_: object) -> None:
        inside.pop()

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            hooks.callback(module.register_forward_pre_hook(partial(enter, name)).remove)
            hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
        with _AttentionMode(lambda weights: callback(inside[-1] if inside else "", weights)):
            yield


def weights_of(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **_: object,
) -> Tensor:
    """The weights that :func:`torch.nn.functional.scaled_dot_product_attention` gives the values, before dropout.

    Args: as that function's, with queries ``(..., T, E)`` and keys ``(..., S, E)``.

    Returns:
        ``(..., T, S)``; of a query that sees nothing, zeros.
    """
    scores = query @ key.transpose(-1, -2) * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1).nan_to_num(0.0)


class _AttentionMode(TorchFunctionMode):
    """Gives its callback the weights of every fused attention."""

    def __init__(self, callback: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.callback = callback

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func is scaled_dot_product_attention:
            self.callback(weights_of(*args, **kwargs).detach())
        return func(*args, **kwargs)
