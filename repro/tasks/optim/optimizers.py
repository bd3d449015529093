"""Optimisers of papers that torch lacks in this form, and learning rates by the names of parameters."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer, RAdam


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


class RatesByName:
    """Makes an optimiser in which parameters that are chosen by name have learning rates of their own.

    A schedule multiplies all rates alike. Parameters that no name chooses are the first group, whose rate is logged.

    Args:
        optimizer: maker of the optimiser; its ``lr`` is the rate of all other parameters.
        rates: learning rates by a dotted part of a parameter's name: ``long`` chooses
            ``net.stack.layers.0.mix.body.long.key.weight``. The first part that fits a name counts. None is no rate of
            its own, for a point of a recipe whose network does not have a part.
        wait_for_gradient: a parameter with a rate of its own takes no step before its first gradient that is not zero:
            no decay, and a bias correction that counts from there. So are parameters treated that a network leaves out
            of its first updates where such parameters have no gradient; here they have zeros, because distributed
            training needs a gradient of everything. The optimiser must keep a state of each parameter that it stepped.

    Raises:
        ValueError: no rates, or one that is not above 0.
    """

    def __init__(
        self,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer],
        rates: dict[str, float | None],
        wait_for_gradient: bool = False,
    ) -> None:
        self.rates = {part: rate for part, rate in rates.items() if rate is not None}
        if not self.rates:
            raise ValueError("rates is empty; name a part of the network, or give the optimiser alone")
        for part, rate in self.rates.items():
            if not rate > 0:
                raise ValueError(f"rates.{part} must be above 0, not {rate}")
        self.optimizer = optimizer
        self.wait_for_gradient = wait_for_gradient

    def __call__(self, parameters: Iterable[Any]) -> Optimizer:
        """The optimiser of parameters, or of :meth:`groups` of them."""
        return self.optimizer(parameters)

    def groups(self, named: Mapping[str, nn.Parameter]) -> list[dict[str, Any]]:
        """Parameters in groups: those without a rate of their own first, then as ``rates`` has them.

        Raises:
            ValueError: a part chooses no parameter, or none is left over.
        """
        parts: dict[str, list[nn.Parameter]] = {part: [] for part in ("", *self.rates)}
        for name, parameter in named.items():
            parts[next((part for part in self.rates if f".{part}." in f".{name}."), "")].append(parameter)
        for part, chosen in parts.items():
            if not chosen:
                problem = f"rates.{part} chooses no parameter" if part else "rates choose every parameter"
                raise ValueError(
                    f"{problem} that is trained; name a part of the network, such as {_example(named)}"
                )
        rates = {part: {"lr": rate} for part, rate in self.rates.items()}
        return [{"params": chosen, **rates.get(part, {})} for part, chosen in parts.items()]


    def before_step(self, optimizer: Optimizer) -> None:
        """Takes the gradients of zeros away from parameters that wait, once those of all ranks are added up.

        Args:
            optimizer: made by this maker from :meth:`groups`.
        """
        waiting = optimizer.param_groups[1:] if self.wait_for_gradient else []
        for parameter in (p for group in waiting for p in group["params"]):
            if parameter.grad is not None and not optimizer.state.get(parameter) and not parameter.grad.any():
                parameter.grad = None


def _example(named: Mapping[str, nn.Parameter]) -> str:
    """A dotted part of some parameter's name."""
    return next(iter(named), "net").rpartition(".")[0].rpartition(".")[2] or "net"
