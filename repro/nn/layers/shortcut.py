"""Initial values of weighted shortcuts: the spread of all that was added before, measured in one forward pass.

A branch then contributes about ``1 / i`` of the variance that the norm behind sublayer ``i`` sees, where plain
post-norm gives every branch the same share; how much the output changes with the weights grows with the logarithm of
the depth.

Source: Liu et al. 2020, sections 4 and 5, and the authors' code.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn

from repro.nn.layers.stack import ResidualStack
from repro.nn.layers.sublayer import Sublayer, WeightedShortcut

Beginnings = dict[str, list[float]]


def sublayers_of(stack: ResidualStack) -> list[Sublayer]:
    """The sublayers of a stack in the order in which they run."""
    return [sublayer for layer in stack.each() for sublayer in layer.values()]


def weighted_stacks(net: nn.Module) -> dict[str, list[Sublayer]]:
    """The sublayers with a weighted shortcut of every stack that has any, by the stack's name in the network."""
    stacks = {name: module for name, module in net.named_modules() if isinstance(module, ResidualStack)}
    weighted = {name: [s for s in sublayers_of(stack) if _weighted(s)] for name, stack in stacks.items()}
    return {name: sublayers for name, sublayers in weighted.items() if sublayers}


def beginnings(net: nn.Module) -> Beginnings:
    """The initial omegas of every stack, in order; 0 where not yet initialised."""
    return {
        name: [float(shortcut_of(sublayer).begun) for sublayer in sublayers]
        for name, sublayers in weighted_stacks(net).items()
    }


def begin(net: nn.Module, values: Beginnings) -> None:
    """Fills the omegas of every stack.

    Args:
        net: any network.
        values: above 0, as :func:`beginnings` orders them.
    """
    for name, sublayers in weighted_stacks(net).items():
        for sublayer, value in zip(sublayers, values[name], strict=True):
            shortcut_of(sublayer).begin(value)


@torch.no_grad()
def begin_by_variance(net: nn.Module, run: Callable[[], object]) -> Beginnings:
    """Fills every omega, branch by branch, while a network runs once.

    In each stack ``w`` begins as 1, and at every weighted sublayer, in order, ``omega = w`` and then
    ``w = sqrt(Var[x * omega] + Var[dropout(body(x))])``. Variances are the population's over whole tensors, padding
    included, in float32 or better. The run is cut short at the last omega: nothing behind it is computed.

    Args:
        net: in the mode in which it will be trained.
        run: calls it with one batch.

    Returns:
        The omegas of every stack, in order.

    Raises:
        ValueError: a sublayer that the run never came to, or a variance that is not finite.

    Source: Liu et al. 2020, code (``adaptive-profiling``). Deviation: from the paper's algorithm as the code is: the
    first omega is 1, and the variance of the first input is part of all others. Vectors at padding are those that the
    network gives them, where the authors' are zero and never see themselves.
    """
    stacks = weighted_stacks(net)
    last = sum(map(len, stacks.values()))
    omegas: Beginnings = {name: [] for name in stacks}

    def reached(name: str, value: float) -> None:
        omegas[name].append(value)
        if sum(map(len, omegas.values())) == last:
            raise _Reached

    with ExitStack() as hooks:
        for name, sublayers in stacks.items():
            watch = _Sums(partial(reached, name))
            for sublayer in sublayers:
                for hook in watch.hooks(sublayer):
                    hooks.callback(hook.remove)
        try:
            run()
        except _Reached:
            return omegas
    missing = [name for name, sublayers in stacks.items() if len(omegas[name]) < len(sublayers)]
    raise ValueError(f"one pass did not reach every sublayer of {', '.join(missing)}")


class _Reached(Exception):
    """Ends a run where nothing is left to be measured."""


class _Sums:
    """The running sum of variances of one stack, and the hooks that keep it.

    Args:
        report: called with every omega as it is filled.
    """

    def __init__(self, report: Callable[[float], None]) -> None:
        self.report = report
        self.value = 1.0
        self.branch = 0.0

    def hooks(self, sublayer: Sublayer) -> Iterator["torch.utils.hooks.RemovableHandle"]:
        """A sublayer computes its branch first, and then its shortcut."""
        shortcut = shortcut_of(sublayer)
        yield sublayer.dropout.register_forward_hook(lambda _, __, y: self._branch(y))
        yield shortcut.register_forward_pre_hook(lambda module, _: self._begin(module))
        yield shortcut.register_forward_hook(lambda _, __, y: self._add(y))

    def _branch(self, y: Tensor) -> None:
        self.branch = variance(y)

    def _begin(self, shortcut: WeightedShortcut) -> None:
        shortcut.begin(self.value)
        self.report(self.value)

    def _add(self, y: Tensor) -> None:
        total = variance(y) + self.branch
        if not 0 < total < float("inf"):
            raise ValueError(f"the variance behind a branch is {total}: no shortcut can begin with it")
        self.value = total**0.5


def variance(x: Tensor) -> float:
    """Variance of all entries together, computed in float32 or better."""
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    return float(exact.var(correction=0))


def shortcut_of(sublayer: Sublayer) -> WeightedShortcut:
    """The weighted shortcut of a sublayer that has one.

    Raises:
        TypeError: it has another.
    """
    if not isinstance(sublayer.shortcut, WeightedShortcut):
        raise TypeError(f"the shortcut is a {type(sublayer.shortcut).__name__}, not weighted")
    return sublayer.shortcut


def _weighted(sublayer: Sublayer) -> bool:
    return isinstance(sublayer.shortcut, WeightedShortcut)
