"""The ``meta`` device, which has shapes and no values: what torch lacks there, and who may ask for values."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from repro.nn import bidirectional
from repro.nn.vocabularies import adaptive, clusters, ctc

META = torch.device("meta")


def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answers those who may ask the device for numbers; anyone else who asks fails.

    Returns:
        The modules that asked, one name for each time.
    """
    asked: list[str] = []
    tokens: list[int] = []  # of the vocabulary that is about to ask
    group = clusters.group

    def groups(ids: Tensor, edges: list[int]) -> clusters.Groups:
        tokens[:] = [len(ids)]
        return group(ids, edges)

    def answer(module: ModuleType, numbers: Callable[[int], list[int]]) -> None:
        def host_ints(values: Tensor, typical: object = None) -> list[int]:
            assert values.is_meta
            assert values.dim() == 1
            asked.append(module.__name__.rpartition(".")[2])
            return numbers(len(values))

        monkeypatch.setattr(module, "host_ints", host_ints)

    monkeypatch.setattr(adaptive, "group", groups)
    # ids at or behind each edge: all of them at the first, none at the last
    answer(clusters, lambda n: [tokens[0] * edge // (n - 1) for edge in reversed(range(n))])
    answer(bidirectional, lambda n: [1] * n)  # lengths
    answer(ctc, lambda n: [1] * n)
    return asked


class OneDevice(TorchDispatchMode):
    """Refuses operations between the CPU and ``meta``, copies included: indices on the CPU, which torch takes.

    Args:
        allowed: how many there may be.

    Raises:
        RuntimeError: there is one more.
    """

    def __init__(self, allowed: int = 0) -> None:
        super().__init__()
        self.left = allowed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        devices = {one.device.type for one in tree_leaves((args, kwargs, out)) if isinstance(one, Tensor)}
        if len(devices) > 1:
            self.left -= 1
            if self.left < 0:
                raise RuntimeError(f"{func} is given tensors of {', '.join(sorted(devices))}")
        return out


# Factors for a tensor that are computed in a way that must not be: nobody notices on a CPU.
FAULTS: dict[str, Callable[[Tensor], Tensor | float]] = {
    "item": lambda x: x.detach().sum().item(),
    "bool": lambda x: 2.0 if bool((x > 0).any()) else 1.0,
    "tolist": lambda x: x.detach().flatten().tolist()[0],
    "boolean index": lambda x: x[x > 0].sum(),
    "a tensor on the CPU": lambda x: torch.ones(x.shape),
    "an index on the CPU": lambda x: x[torch.arange(len(x))],
    "a copy from the CPU": lambda x: torch.ones(x.shape).to(x.device),
}
FAILURES = (RuntimeError, NotImplementedError)
