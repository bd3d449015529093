"""Operations of a forward pass, and the peak throughput of devices."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# TFLOP/s without sparsity, from the makers' data sheets: of 32-bit floats, of those rounded to TF32, of 16-bit floats.
# None: there is no such unit. The first line whose words are all in the device's name counts.
PEAKS: dict[str, tuple[float, float | None, float | None]] = {
    "H200": (67.0, 494.7, 989.4),
    "GH200": (67.0, 494.7, 989.4),
    "H100 PCIe": (51.2, 378.0, 756.0),
    "H100 NVL": (60.0, 417.5, 835.0),
    "H100": (66.9, 494.7, 989.4),
    "A100": (19.5, 156.0, 312.0),
    "V100": (15.7, None, 125.0),
    "P100": (10.6, None, 21.2),
    "P40": (12.0, None, None),
    "1080 Ti": (11.3, None, None),
    "T4": (8.1, None, 65.0),
    "L4": (30.3, 60.5, 121.0),
    "L40S": (91.6, 183.0, 362.0),
    "A6000": (38.7, 77.4, 154.8),
    "4090": (82.6, 82.6, 165.2),
}


def peak_flops(device: str, precision: str, tf32: bool = False) -> float | None:
    """Floating-point operations a second that one device does at most; None for one that is not known.

    Args:
        device: its name, as CUDA reports it.
        precision: the Trainer's: ``32-true``, ``bf16-mixed``, ``16-true``, ...
        tf32: whether products of 32-bit floats may be rounded.
    """
    words = set(device.replace("-", " ").split())
    for name, (single, rounded, half) in PEAKS.items():
        if set(name.split()) <= words:
            if "16" in precision:
                return None if half is None or ("bf16" in precision and rounded is None) else half * 1e12
            if not precision.startswith("32"):
                return None
            return (rounded if tf32 and rounded is not None else single) * 1e12
    return None


class FlopCounter(TorchDispatchMode):
    """Adds up the multiplications and additions of products of matrices, convolutions and attention within it.

    Every operation runs as it would without: nothing is drawn, no number changes.

    Attributes:
        total: so far; those of a backward pass are counted only where it runs within.

    Deviation: attention counts whole squares, causal or not, as the formulas of torch do; the backward pass of a fused
    kernel counts as much as one that kept the weights, without the scores that it computes again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: OpOverload, types: object, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.total += flops_of(func, args, kwargs or {}, out)
        return out


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
