"""Optimisers of papers that torch lacks in this form, and learning rates by the names of parameters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, RAdam


class ClippedRAdam(RAdam):
    """RAdam with decoupled weight decay that clips the gradient of every tensor by itself.

    A tensor that holds several matrices on top of each other counts as so many tensors once :meth:`clip_apart` has
    been told of it. A task does this for every :class:`~repro.nn.FusedLinear` when it makes the optimiser. The parts
    belong to the network, not to the optimiser's state: no checkpoint holds them.

    Args:
        params: to optimise.
        lr: learning rate.
        betas: decay of both means.
        eps: added to the root of the second one.
        weight_decay: decoupled; times the learning rate.
        max_norm: longest gradient of a tensor.

    Raises:
        ValueError: ``max_norm`` is not above 0.

    Source: Katharopoulos et al. 2020, code of the experiments (``radam.py`` of the copy task and of the images), whose
    queries, keys and values have a matrix and a bias each.
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
        self._parts: dict[nn.Parameter, list[int]] = {}

    def clip_apart(self, parts: Mapping[nn.Parameter, Sequence[int]]) -> None:
        """Clips the gradient of each part of a parameter by itself, from now on.

        Args:
            parts: for a parameter the sizes of its parts along the first axis, such as :func:`repro.nn.parts_of` gives.
        """
        self._parts = {parameter: list(sizes) for parameter, sizes in parts.items()}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Clips, then updates."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for parameter in (p for group in self.param_groups for p in group["params"]):
            if parameter.grad is not None:
                sizes = self._parts.get(parameter)
                for part in [parameter.grad] if sizes is None else parameter.grad.split(sizes):
                    _clip(part, self.max_norm)
        super().step()
        return loss


def _clip(gradient: Tensor, max_norm: float) -> None:
    """Shortens a gradient in place to ``max_norm`` at most; a millionth is added to its length, as by torch."""
    length = torch.linalg.vector_norm(gradient)
    gradient.mul_((max_norm / (length + 1e-6)).clamp(max=1.0))


class RatesByName:
    """Makes an optimiser in which parameters that are chosen by name have learning rates of their own.

    A schedule multiplies all rates alike. Parameters that no name chooses are the first group, whose rate is logged.

    Args:
        optimizer: maker of the optimiser; its ``lr`` is the rate of all other parameters.
        rates: learning rates by a dotted part of a parameter's name: ``long`` chooses
            ``net.stack.layers.0.mix.body.long.key.weight``. The first part that fits a name counts. None is no rate of
            its own, for a point of a recipe whose network does not have a part.

    Raises:
        ValueError: no rates, or one that is not above 0.
    """

    def __init__(
        self, optimizer: Callable[[Iterable[nn.Parameter]], Optimizer], rates: dict[str, float | None]
    ) -> None:
        self.rates = {part: rate for part, rate in rates.items() if rate is not None}
        if not self.rates:
            raise ValueError("rates is empty; name a part of the network, or give the optimiser alone")
        for part, rate in self.rates.items():
            if not rate > 0:
                raise ValueError(f"rates.{part} must be above 0, not {rate}")
        self.optimizer = optimizer

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


def _example(named: Mapping[str, nn.Parameter]) -> str:
    """A dotted part of some parameter's name."""
    return next(iter(named), "net").rpartition(".")[0].rpartition(".")[2] or "net"
