"""Prepacked weights for faster products on a CPU while they do not change: in a search, and in a validation."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from repro.nn.fused import FusedLinear
from repro.nn.vocabularies.embeddings import TokenEmbedding

LEAST_NUMBERS = 1 << 16  # smaller weights gain little (measured: 64 · 64 to 512 · 32,768)
LEAST_STEPS = 8  # fewer do not pay for laying the weights out anew
_PLAIN = (nn.Linear, FusedLinear)  # another subclass may compute something else
_EXPECTED_ROWS = 16  # the layout depends little on it

_Product = Callable[[Tensor], Tensor]


@contextmanager
def packed(modules: Iterable[nn.Module], steps: float) -> Iterator[None]:
    """Multiplies by large float32 weights in oneDNN's own layout meanwhile, on a CPU and where no gradient is wanted.

    Products are equal up to rounding. A weight is laid out when it is first needed, and that layout is dropped at the
    end: the weights must not change in between, and for that time they take their memory twice. Parts of a module that
    is compiled (``Module.compile``) are left as they are.

    Args:
        modules: all of a model; linear layers and tied embeddings among them.
        steps: how often each weight will be used, about.
    """
    every = list(modules) if steps >= LEAST_STEPS and _available() else []
    compiled = {part for module in every if module._compiled_call_impl for part in module.modules()}
    products = _products(module for module in every if module not in compiled)
    for module, name, product in products:
        setattr(module, name, product)
    try:
        yield
    finally:
        for module, name, _ in products:
            delattr(module, name)


def _available() -> bool:
    """Whether this torch has oneDNN and its two operators, which are not part of torch's public interface."""
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)


def _products(modules: Iterable[nn.Module]) -> list[tuple[nn.Module, str, _Product]]:
    """The methods to replace, with their modules."""
    products: list[tuple[nn.Module, str, _Product]] = []
    for module in modules:
        if (
            isinstance(module, nn.Linear)
            and type(module) in _PLAIN
            and _worth(module.weight)
            and "forward" not in vars(module)
        ):
            products.append((module, "forward", _Packed(module.weight, module.bias)))
        elif (
            isinstance(module, TokenEmbedding)
            and _worth(module.table.weight)
            and "scores" not in vars(module)
        ):
            products.append((module, "scores", _Packed(module.table.weight, None)))
    return products


def _worth(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype is torch.float32 and weight.numel() >= LEAST_NUMBERS


class _Packed:
    """``x Wᵀ + b``."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.layout: Tensor | None = None
        wide = len(weight) >= 2 * weight.shape[1]
        self.columns = weight.detach().t() if wide else None

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.numel() // x.shape[-1]
        if (
            not rows
            or torch.is_grad_enabled()
            or x.dtype is not torch.float32
            or torch.is_autocast_enabled("cpu")
        ):
            return linear(x, self.weight, self.bias)
        if rows == 1:
            return self._one(x)
        if self.layout is None:
            self.layout = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), _EXPECTED_ROWS)
        return torch.ops.mkldnn._linear_pointwise.default(x, self.layout, self.bias, "none", [], "")

    def _one(self, x: Tensor) -> Tensor:
        """A single row: sums of columns are faster than products of rows where there are many rows."""
        if self.columns is None:
            return linear(x, self.weight, self.bias)
        self.columns = self.columns.contiguous()
        return linear(x, self.columns.t(), self.bias)
