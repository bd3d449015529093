"""Optimisers that torch does not have."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer


class NesterovAccelerated(Optimizer):
    """Nesterov's accelerated gradient whose velocity is rescaled when the learning rate changes.

    With learning rates ``e`` (now) and ``e'`` (at the update before), momentum m and gradient g::

        w <- w + m² (e / e') v - (1 + m) e g
        v <- m (e / e') v - e g

    At a constant rate this is ``torch.optim.SGD(nesterov=True)``, whose velocity is ``-v / e``.

    Args:
        params: parameters.
        lr: e, at least 0.
        momentum: m, in [0, 1).
        weight_decay: λ; weights are multiplied by ``1 - e λ`` first.

    Raises:
        ValueError: a value out of range.

    Source: Sutskever et al. 2013 in the form of Bengio et al. 2013, as fairseq's ``nag``, which trained the models of
    Baevski and Auli 2019 and Press et al. 2021.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.99, weight_decay: float = 0.0
    ) -> None:
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if value < 0:
                raise ValueError(f"{name} must be at least 0, not {value}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), not {momentum}")
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            rate, momentum = float(group["lr"]), group["momentum"]
            kept = momentum * (
                rate / group.get("lr_before", rate) if group.get("lr_before", rate) > 0 else 1.0
            )
            group["lr_before"] = rate
            trained = [p for p in group["params"] if p.grad is not None]
            if trained:
                self._update(trained, rate, momentum, kept, group["weight_decay"])
        return loss

    def _update(
        self, trained: list[nn.Parameter], rate: float, momentum: float, kept: float, decay: float
    ) -> None:
        """``kept`` is the momentum on the scale of the present rate."""
        for parameter in trained:
            self.state[parameter].setdefault("velocity", torch.zeros_like(parameter))
        velocities = [self.state[parameter]["velocity"] for parameter in trained]
        gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
        if decay:
            torch._foreach_mul_(trained, 1.0 - rate * decay)
        torch._foreach_add_(trained, velocities, alpha=momentum * kept)
        torch._foreach_add_(trained, gradients, alpha=-(1.0 + momentum) * rate)
        torch._foreach_mul_(velocities, kept)
        torch._foreach_add_(velocities, gradients, alpha=-rate)
