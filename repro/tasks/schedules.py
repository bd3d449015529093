"""Learning-rate schedules. They count optimiser updates, never micro-batches."""

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


class Noam(LambdaLR):
    """``lr · factor · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)``, step from 1.

    Args:
        optimizer: its own ``lr`` multiplies the formula; the paper's is 1.
        d_model: D.
        warmup_steps: updates of linear growth.
        factor: on the whole curve.

    Raises:
        ValueError: ``warmup_steps`` is below 1.

    Source: Vaswani et al. 2017, section 5.3, equation 3.
    """

    def __init__(self, optimizer: Optimizer, d_model: int, warmup_steps: int, factor: float = 1.0) -> None:
        if warmup_steps < 1:
            raise ValueError(f"warmup_steps must be at least 1, not {warmup_steps}")
        super().__init__(optimizer, lambda done: factor * noam(done + 1, d_model, warmup_steps))


class Constant(LambdaLR):
    """The optimiser's own learning rate, unchanged."""

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer, lambda done: 1.0)


def noam(step: int, d_model: int, warmup_steps: int) -> float:
    """The formula of :class:`Noam` at one step, from 1, with factor 1."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
