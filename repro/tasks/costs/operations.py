"""The kernels that a GPU runs for a computation, by what they compute and move; also on the meta device."""

import weakref
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

    Every operation runs as it would without: nothing is drawn, no number changes. Those of a backward pass are counted
    only where it runs within.

    Attributes:
        operations: how often each occurred.
        fused: the same as a compiler may join them: those of kind ``memory`` between two others read what was there
            before and write what is there afterwards, each once, with a kernel for each size of what they write.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[Operation] = Counter()
        self.fused: Counter[Operation] = Counter()
        self._read: dict[int, int] = {}  # bytes of storages from before, by their address
        self._written: dict[int, tuple[weakref.ref[torch.UntypedStorage], int]] = {}

    def __exit__(self, *error: Any) -> None:
        self._end_group()
        super().__exit__(*error)

    def __torch_dispatch__(self, func: OpOverload, types: object, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        read, written = tensors((args, kwargs)), tensors(out)
        if _runs_a_kernel(func, read, written):
            flops = flops_of(func, args, kwargs or {}, out)
            kind = "attention" if "scaled_dot_product" in str(func) else "product" if flops else "memory"
            operation = Operation(kind, flops, _moved(func, read, written))
            self.operations[operation] += 1
            if kind == "memory":
                self._add_to_group(read, written, operation.bytes)
            else:
                self._end_group()
                self.fused[operation] += 1
        return out

    def _add_to_group(self, read: list[Tensor], written: list[Tensor], most: int) -> None:
        for one in read:
            if (key := one.untyped_storage()._cdata) not in self._written:
                self._read[key] = max(self._read.get(key, 0), min(_size(one), most))
        for one in written:
            storage = one.untyped_storage()
            self._written[storage._cdata] = weakref.ref(storage), _size(one)

    def _end_group(self) -> None:
        sizes = [size for storage, size in self._written.values() if storage() is not None]
        if kernels := len(set(sizes)):
            moved = sum(self._read.values()) + sum(sizes)
            self.fused[Operation("memory", 0, moved // kernels)] += kernels
        self._read, self._written = {}, {}


def flops_in(operations: Mapping[Operation, float]) -> int:
    """FLOPs of operations by how often each occurs.

    Deviation: attention counts whole squares, causal or not, as the formulas of torch do; the backward pass of a fused
    kernel counts as much as one that kept the weights, without the scores that it computes again.
    """
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
