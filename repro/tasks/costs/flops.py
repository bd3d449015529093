"""FLOPs of single operations of torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils.flop_counter import flop_registry


def flops_of(func: OpOverload, args: Any, kwargs: dict[str, Any], out: object) -> int:
    """FLOPs of one call of an operation; 0 for one that is no product, convolution or attention."""
    packet = func._overloadpacket
    if packet in _WITHOUT_FORMULA:
        return _WITHOUT_FORMULA[packet](*args[:4])
    return int(flop_registry[packet](*args, **kwargs, out_val=out)) if packet in flop_registry else 0


def attention_flops(query: Tensor, key: Tensor, value: Tensor, *_: object) -> int:
    """FLOPs of scores and weighted sums: query ``(B, H, T, E)``, key ``(B, H, S, E)``, value ``(B, H, S, F)``."""
    rows, width = query.numel() // query.shape[-1], query.shape[-1]
    return 2 * rows * key.shape[-2] * (width + value.shape[-1])


def attention_backward_flops(_: Tensor, query: Tensor, key: Tensor, value: Tensor) -> int:
    """FLOPs of the gradients of queries, keys, values and weights: four products for two of the forward pass."""
    return 2 * attention_flops(query, key, value)


def added_product_flops(_: Tensor, left: Tensor, right: Tensor, *__: object) -> int:
    """FLOPs of ``(N, A, B)`` times ``(N, B, C)``; the addition is not counted, nor is any other."""
    return 2 * left.numel() * right.shape[-1]


_WITHOUT_FORMULA: dict[Any, Callable[..., int]] = {  # in torch's registry, or with another one
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward_flops,
    torch.ops.aten._scaled_dot_product_efficient_attention_backward: attention_backward_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_backward: attention_backward_flops,
    torch.ops.aten.baddbmm_: added_product_flops,
}
