"""Optimisers of papers that torch lacks in this form, and learning rates by the names of parameters."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer, RAdam


class ClippedRAdam(RAdam):
    """RAdam with decoupled weight decay that clips the gradient of every tensor by itself.

    A tensor that holds several matrices on top of each other counts as several tensors once :meth:`clip_apart`
    registers it. A task does this for every :class:`~repro.nn.FusedLinear` when it makes the optimiser. The parts
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
        clip_each(list(self._gradients()), self.max_norm)
        super().step()
        return loss

    def _gradients(self) -> Iterator[Tensor]:
        for parameter in (p for group in self.param_groups for p in group["params"]):
            if parameter.grad is not None:
                sizes = self._parts.get(parameter)
                yield from [parameter.grad] if sizes is None else parameter.grad.split(sizes)


def clip_each(gradients: list[Tensor], max_norm: float) -> None:
    """Shortens each gradient in place to ``max_norm`` at most; a millionth is added to its length, as by torch."""
    if gradients:
        lengths = torch.stack(torch._foreach_norm(gradients))
        factors = (max_norm / (lengths + 1e-6)).clamp(max=1.0)
        if factors.device.type == "cpu":
            for gradient, factor in zip(gradients, factors, strict=True):
                gradient.mul_(factor)
        else:
            multiply_together(gradients, factors)


def multiply_together(tensors: list[Tensor], factors: Tensor) -> None:
    """Multiplies each of N tensors in place by one of the factors ``(N,)``, with few launches for all of them.

    For that time each number has its factor in memory.
    """
    counts = [one.numel() for one in tensors]
    repeats = torch.tensor(counts, device=factors.device)
    wide = factors.repeat_interleave(repeats, output_size=sum(counts)).split(counts)
    torch._foreach_mul_(tensors, [part.view_as(one) for part, one in zip(wide, tensors, strict=True)])


class InGroups:
    """Base of makers of an optimiser whose parameters are in groups with settings of their own.

    Args:
        optimizer: maker of the optimiser.
    """

    def __init__(self, optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]) -> None:
        self.optimizer = optimizer

    def __call__(self, parameters: Iterable[Any]) -> Optimizer:
        """The optimiser of parameters, or of :meth:`groups` of them."""
        return self.optimizer(parameters)

    def groups(self, named: Mapping[str, nn.Parameter]) -> list[dict[str, Any]]:
        """Parameters in groups."""
        raise NotImplementedError

    def before_step(self, optimizer: Optimizer) -> None:
        """Called before every step of its optimiser, once the gradients of all ranks are added up."""


class DecayedMatrices(InGroups):
    """Makes an optimiser that decays only parameters of two or more dimensions.

    Its weight decay holds for matrices and tables, and is 0 for biases and norms.

    Source: nanoGPT (model.py, ``configure_optimizers``).
    """

    def groups(self, named: Mapping[str, nn.Parameter]) -> list[dict[str, Any]]:
        """Parameters in two groups: those that are decayed, then the others.

        Raises:
            ValueError: no parameter has two dimensions.
        """
        decayed = [p for p in named.values() if p.dim() >= 2]
        others = [p for p in named.values() if p.dim() < 2]
        if not decayed:
            raise ValueError("no parameter that is trained has two dimensions: give the optimiser alone")
        return [{"params": decayed}, *([{"params": others, "weight_decay": 0.0}] if others else [])]


class RatesByName(InGroups):
    """Makes an optimiser in which parameters that are chosen by name have learning rates of their own.

    A schedule multiplies all rates alike. Parameters that no name chooses are the first group, whose rate is logged.

    Args:
        optimizer: maker of the optimiser; its ``lr`` is the rate of all other parameters.
        rates: learning rates by a dotted part of a parameter's name: ``long`` chooses
            ``net.stack.layers.0.mix.body.long.key.weight``. The first part that fits a name counts. None is no rate of
            its own, for a point of a recipe whose network does not have a part.
        wait_for_gradient: a parameter with a rate of its own takes no step before its first gradient that is not zero:
            no decay, and a bias correction that counts from there. Other codes treat parameters that a network does not
            use in its first updates in this way, as they have no gradient; here their gradient is zero, because
            distributed training needs a gradient of every parameter. The optimiser must keep a state of each parameter
            that it stepped.

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
        super().__init__(optimizer)
        self.wait_for_gradient = wait_for_gradient

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
        """Removes zero gradients of waiting parameters."""
        waiting = optimizer.param_groups[1:] if self.wait_for_gradient else []
        for parameter in (p for group in waiting for p in group["params"]):
            if parameter.grad is not None and not optimizer.state.get(parameter) and not parameter.grad.any():
                parameter.grad = None


def _example(named: Mapping[str, nn.Parameter]) -> str:
    """A dotted part of some parameter's name."""
    return next(iter(named), "net").rpartition(".")[0].rpartition(".")[2] or "net"


class _ByAge(Optimizer):
    """A part of optimisers some of whose settings depend on how many updates a parameter has had.

    For the time of an update, every group is divided into parts whose parameters have had equally many, and each part
    has its own settings. Nothing is kept but what torch keeps, so a run that is resumed goes on as it would have.
    """

    def _settings(self, part: dict[str, Any], update: int) -> dict[str, Any]:
        """Returns the settings that differ for a part of a group.

        Args:
            part: the group with some of its parameters.
            update: number of their coming update, from 1.
        """
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Updates each part with its own settings."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = self.param_groups
        self.param_groups = [part for group in groups for part in self._parts(group)]
        try:
            super().step()
        finally:
            self.param_groups = groups
        return loss

    def _parts(self, group: dict[str, Any]) -> Iterator[dict[str, Any]]:
        parameters: dict[int, list[nn.Parameter]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                done = self.state[parameter].get("step", 0)
                parameters.setdefault(int(done) + 1, []).append(parameter)
        for update, chosen in parameters.items():
            part = {**group, "params": chosen}
            yield part | self._settings(part, update)


class EpsilonHatAdam(_ByAge, Adam):
    """Adam whose ``eps`` is added to the root of the second mean before that mean's bias is corrected.

    Update ``t`` is ``-lr · sqrt(1 - β2^t) / (1 - β1^t) · m / (sqrt(v) + eps)``. Torch's own Adam is the same with
    ``eps / sqrt(1 - β2^t)``, which is what it is given here.

    Args:
        params: to optimise.
        lr: learning rate.
        betas: decay of both means.
        eps: the paper's ε̂.
        weight_decay: decoupled; times the learning rate, before the update.

    Source: Kingma and Ba 2015, end of section 2, with ε̂ for ε; so fairseq, transformers' ``AdamW`` up to version 4,
    TensorFlow.
    Deviation: transformers decays weights after the update; the difference is the decay of one update.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay=True)

    def _settings(self, part: dict[str, Any], update: int) -> dict[str, Any]:
        return {"eps": part["eps"] / math.sqrt(1.0 - part["betas"][1] ** update)}


class WaitingRAdam(_ByAge, RAdam):
    """RAdam that does not move weights as long as the variance of its step is unknown; only the decay acts.

    With ``β2`` 0.98 these are updates 1 to 5. Both means are kept from the first update on.

    Args:
        params: to optimise.
        lr: learning rate.
        betas: decay of both means.
        eps: added to the root of the second one.
        weight_decay: decoupled; times the learning rate.

    Raises:
        ValueError: a second decay of 2/3 or less, with which the variance is never known.

    Source: Liu et al. 2020, code (``radam_fairseq/radam.py``). Torch's RAdam takes steps of plain momentum there, as
    algorithm 2 of the paper on RAdam does.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not betas[1] > 2 / 3:
            raise ValueError(f"betas.1 must be above 2/3, not {betas[1]}: no update would move a weight")
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay=True)

    def _settings(self, part: dict[str, Any], update: int) -> dict[str, Any]:
        decay = part["betas"][1]
        seen = 2.0 / (1.0 - decay) - 1.0 - 2.0 * update * decay**update / (1.0 - decay**update)
        if seen > 5.0:
            return {}
        # Decays here: torch's update, at the rate of 0 below, would not.
        torch._foreach_mul_(part["params"], 1.0 - part["lr"] * part["weight_decay"])
        return {"lr": 0.0}
