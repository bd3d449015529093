"""Memory of a computation without doing it: bytes of the tensors that exist at a time, also on the meta device."""

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Adds up the storages of operations within it, until they are released.

    A storage counts once, however many tensors are views of it. The workspace of a running kernel is not counted.

    Args:
        device: device whose storages count.

    Attributes:
        current: bytes now, including tensors given to :meth:`hold`.
        peak: the most so far.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.current = self.peak = 0
        self._known: dict[int, weakref.finalize[Any, Any]] = {}

    def hold(self, *tensors: Tensor) -> None:
        """Counts tensors from before: weights, the batch."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if tensor.device.type != self.device.type or key in self._known:
                continue
            size = storage.nbytes()
            self._known[key] = weakref.finalize(storage, self._release, key, size)
            self.current += size
        self.peak = max(self.peak, self.current)

    def restart(self) -> None:
        """Resets the peak."""
        self.peak = self.current

    def _release(self, key: int, size: int) -> None:
        del self._known[key]
        self.current -= size

    def __torch_dispatch__(self, func: OpOverload, types: object, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.hold(*(one for one in tree_leaves(out) if isinstance(one, Tensor)))
        return out


@contextlib.contextmanager
def fused_kernels() -> Iterator[None]:
    """Has attention and dropout on the meta device take a GPU's kernels, also where a backward pass computes again.

    Left alone, torch spells them out there: attention with a table of weights, dropout with a mask of floats.
    """
    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", _fused, "AutogradMeta")
    library.impl("dropout", _dropped, "AutogradMeta")
    try:
        yield
    finally:
        library._destroy()


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    if attn_mask is not None:
        if attn_mask.dtype is torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = attn_mask.expand(*query.shape[:2], query.shape[2], key.shape[2])
    run = torch.ops.aten._scaled_dot_product_efficient_attention
    wants_gradient = any(one.requires_grad for one in (query, key, value))
    return run(query, key, value, attn_mask, wants_gradient, dropout_p, is_causal, scale=scale)[0]


def _dropped(x: Tensor, p: float, train: bool) -> Tensor:
    return torch.native_dropout(x, p, train)[0] if train and p else x
