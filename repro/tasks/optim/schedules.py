"""Learning-rate schedules. They count optimiser updates, never micro-batches."""

import math
from functools import partial
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler


class Noam(LambdaLR):
    """``lr · factor · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)``, step from 1.

    Args:
        optimizer: its own ``lr`` multiplies the formula; the paper's is 1.
        d_model: D.
        warmup_steps: updates of linear growth.
        factor: on the whole curve.

    Raises:
        ValueError: ``d_model`` or ``warmup_steps`` is below 1.

    Source: Vaswani et al. 2017, section 5.3, equation 3.
    """

    def __init__(self, optimizer: Optimizer, d_model: int, warmup_steps: int, factor: float = 1.0) -> None:
        if min(d_model, warmup_steps) < 1:
            raise ValueError(f"d_model {d_model} and warmup_steps {warmup_steps} must be at least 1")
        super().__init__(optimizer, lambda done: factor * noam(done + 1, d_model, warmup_steps))


class InverseSquareRoot(LambdaLR):
    """Linear growth from ``first`` to the optimiser's learning rate, then ``lr · sqrt(warmup / done)``.

    Args:
        optimizer: its ``lr`` is the peak.
        warmup_steps: updates of linear growth.
        first: rate of the first update, at least 0.

    Raises:
        ValueError: a value out of range.

    Source: fairseq's ``inverse_sqrt``; its update ``n``, counted from 0, has the rate of ``n`` updates done.
    """

    def __init__(self, optimizer: Optimizer, warmup_steps: int, first: float = 1e-7) -> None:
        if warmup_steps < 1 or first < 0:
            raise ValueError(
                f"warmup_steps must be at least 1, not {warmup_steps}, and first at least 0, not {first}"
            )

        def share(peak: float, done: int) -> float:
            if done < warmup_steps:
                return first / peak + (1.0 - first / peak) * done / warmup_steps
            return math.sqrt(warmup_steps / done)

        peaks = [float(group["lr"]) for group in optimizer.param_groups]
        if not min(peaks) > 0:
            raise ValueError(
                f"the optimiser's lr must be above 0, not {min(peaks)}: it is the peak of the schedule"
            )
        super().__init__(optimizer, [partial(share, peak) for peak in peaks])


class WarmupCosine(LambdaLR):
    """Linear growth from ``first`` to the optimiser's learning rate, then half a cosine down to ``last``.

    Args:
        optimizer: its ``lr`` is the peak.
        steps: updates of the whole schedule; behind them the rate stays at ``last``.
        warmup_steps: updates of linear growth; 0 has none.
        first: share of the peak at the first update of the growth, in [0, 1].
        last: share of the peak at the end, in [0, 1].
        from_start: the cosine counts from update 0, as if there were no growth, which only cuts it off; False
            starts it behind the growth.
        cycle: updates of a cosine, behind which the rate is at the peak again, for as long as training goes on; None
            takes one for all updates.
        every: the rate moves along the cosine only at updates ``every``, ``2 every``, ..., counted from 1, and takes
            there the cosine's value of that number; None moves it behind each update.
        peak_first: the first update has the whole peak rate, whatever the growth says: where a rate is set behind each
            update and none before the first.

    Raises:
        ValueError: a value out of range.

    Source: Loshchilov and Hutter 2017; ``from_start`` and ``peak_first`` as Transformer-XL's PyTorch code
    (train.py:459-468), ``cycle`` as in trax, ``every`` as the sorting code of Martins et al. 2022, otherwise as
    fairseq's.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        steps: int,
        warmup_steps: int = 0,
        first: float = 0.0,
        last: float = 0.0,
        from_start: bool = False,
        cycle: int | None = None,
        every: int | None = None,
        peak_first: bool = False,
    ) -> None:
        if not 0 <= warmup_steps < steps:
            raise ValueError(f"warmup_steps must be at least 0 and below steps {steps}, not {warmup_steps}")
        if not 0 <= first <= 1 or not 0 <= last <= 1:
            raise ValueError(f"first and last are shares of the peak in [0, 1], not {first} and {last}")
        if cycle is not None and cycle < 1:
            raise ValueError(f"cycle must be at least 1, not {cycle}")
        if every is not None and every < 1:
            raise ValueError(f"every must be at least 1, not {every}")
        begin = 0 if from_start else warmup_steps

        def share(done: int) -> float:
            if peak_first and done == 0:
                return 1.0
            if done < warmup_steps:
                return first + (1.0 - first) * done / warmup_steps
            at = done if every is None else max(begin, (done + 1) // every * every)
            passed = (at - begin) / (cycle or steps - begin)
            angle = math.pi * (passed % 1.0 if cycle else min(1.0, passed))
            return last + (1.0 - last) * 0.5 * (1.0 + math.cos(angle))

        super().__init__(optimizer, share)


class LinearDecay(LambdaLR):
    """A straight line from the optimiser's learning rate at the first update to 0 behind the last.

    Args:
        optimizer: its ``lr`` is the first rate.
        steps: updates of the whole schedule; behind them the rate stays at 0.

    Raises:
        ValueError: ``steps`` is below 1.

    Source: the default of the trainer that Martins et al. 2022 use, without its warmup.
    """

    def __init__(self, optimizer: Optimizer, steps: int) -> None:
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        super().__init__(optimizer, lambda done: max(0.0, 1.0 - done / steps))


class Constant(LambdaLR):
    """The optimiser's own learning rate, unchanged."""

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer, lambda done: 1.0)


class Plateau(LRScheduler):
    """The optimiser's learning rate, lowered whenever validation stalls.

    Its task passes it every validation. Its state is complete, and a resumed run repeats a validation that was due at
    its checkpoint, so interrupted and uninterrupted runs have the same rates.

    Args:
        optimizer: its ``lr`` is the first rate.
        metric: of the validation; smaller is better.
        factor: on the rate, each time, in (0, 1).
        patience: validations in a row without a new best value that pass before the next one lowers the rate.

    Raises:
        ValueError: a value out of range.

    Source: Katharopoulos et al. 2020, section 4.3: halved when validation stalls. The patience is not stated.
    Deviation: from torch's ``ReduceLROnPlateau``: any new best value counts, however small the step.
    """

    def __init__(
        self, optimizer: Optimizer, metric: str = "val/loss", factor: float = 0.5, patience: int = 0
    ) -> None:
        if not 0 < factor < 1 or patience < 0:
            raise ValueError(
                f"factor must be in (0, 1), not {factor}, and patience at least 0, not {patience}"
            )
        self.metric = metric
        self.factor = factor
        self.patience = patience
        self.reductions = 0
        self.best = math.inf
        self.stalled = 0
        super().__init__(optimizer)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state without the settings."""
        settings = ("metric", "factor", "patience")
        return {name: value for name, value in super().state_dict().items() if name not in settings}

    def get_lr(self) -> list[Any]:
        """The rate of each group."""
        return [base * self.factor**self.reductions for base in self.base_lrs]

    def observe(self, value: float) -> None:
        """Updates the rate after a validation; the next update uses it."""
        if value < self.best:
            self.best, self.stalled = value, 0
            return
        self.stalled += 1
        if self.stalled > self.patience:
            self.reductions += 1
            self.stalled = 0
            for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
                group["lr"] = rate


def noam(step: int, d_model: int, warmup_steps: int) -> float:
    """The formula of :class:`Noam` at one step, from 1, with factor 1."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
