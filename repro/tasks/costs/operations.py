"""The kernels that a GPU runs for a computation, by what they compute and move; also on the meta device."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from repro.tasks.costs.flops import flops_of

_ATEN = torch.ops.aten
_INDEXED = (_ATEN.index_select.default, _ATEN.gather.default, _ATEN.embedding.default, _ATEN.index.Tensor)


class Operation(NamedTuple):
    """The work of one kernel.

    Attributes:
        kind: ``attention`` for a fused kernel of attention, ``product`` for a product of matrices or a convolution,
            else ``memory``.
        flops: of products; those of other operations are not counted.
        bytes: read and written.
    """

    kind: str
    flops: int
    bytes: int


class OperationCounter(TorchDispatchMode):
    """Counts the operations within it that run a kernel: views and new tensors without content do not.

    Attributes:
        operations: how often each occurred.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[Operation] = Counter()

    def __torch_dispatch__(self, func: OpOverload, types: object, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        read, written = tensors((args, kwargs)), tensors(out)
        if _runs_a_kernel(func, read, written):
            flops = flops_of(func, args, kwargs or {}, out)
            kind = "attention" if "scaled_dot_product" in str(func) else "product" if flops else "memory"
            self.operations[Operation(kind, flops, _moved(func, read, written))] += 1
        return out


def flops_in(operations: Mapping[Operation, float]) -> int:
    """FLOPs of operations by how often each occurs; see :class:`~repro.tasks.costs.flops.FlopCounter`."""
    return sum(round(n * operation.flops) for operation, n in operations.items())


def tensors(tree: object) -> list[Tensor]:
    """All tensors of a tree."""
    return [one for one in tree_leaves(tree) if isinstance(one, Tensor)]


def _runs_a_kernel(func: OpOverload, read: list[Tensor], written: list[Tensor]) -> bool:
    if func._schema.is_mutable:
        return bool(read)
    known = {one.untyped_storage()._cdata for one in read}
    is_new = any(one.untyped_storage()._cdata not in known for one in written)
    return is_new and "empty" not in str(func)


def _moved(func: OpOverload, read: list[Tensor], written: list[Tensor]) -> int:
    """Bytes that are read and written; of a tensor that is indexed no more is read than is taken from it."""
    new, old = sum(map(_size, written)), list(map(_size, read))
    if func in _INDEXED:
        old[0] = min(old[0], new)
    return new + sum(old)


def _size(tensor: Tensor) -> int:
    """Bytes of a tensor that is read once: of a broadcast one, its storage."""
    return min(tensor.nbytes, tensor.untyped_storage().nbytes())
