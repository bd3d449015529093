"""Optimisers that papers used and torch does not have as they are."""

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.optim import RAdam


class ClippedRAdam(RAdam):
    """RAdam with decoupled weight decay that clips the gradient of every tensor by itself.

    Args:
        params: to optimise.
        lr: learning rate.
        betas: decay of both means.
        eps: added to the root of the second one.
        weight_decay: decoupled; times the learning rate.
        max_norm: longest gradient of a tensor.

    Raises:
        ValueError: ``max_norm`` is not above 0.

    Source: Katharopoulos et al. 2020, code of the experiments (copy task and images).
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        max_norm: float = 1.0,
    ) -> None:
        if not max_norm > 0:
            raise ValueError(f"max_norm must be above 0, not {max_norm}")
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay=True)
        self.max_norm = max_norm

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Clips, then updates."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
            nn.utils.clip_grad_norm_(parameter, self.max_norm)
        super().step()
        return loss
