"""Leaves out calls of modules that do nothing: in a step of decoding each costs as much as a small product."""

from torch import Tensor, nn


def applied(module: nn.Module, x: Tensor) -> Tensor:
    """``module(x)``; without a call where that is ``x`` itself and no hook is registered."""
    idle = type(module) is nn.Identity or (type(module) is nn.Dropout and not module.training)
    return x if idle and not module._forward_hooks and not module._forward_pre_hooks else module(x)
