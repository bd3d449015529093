"""Learning-rate schedules."""

import pytest
import torch

from repro.tasks.schedules import Constant, Noam, noam


def optimizer(lr: float = 1.0) -> torch.optim.Optimizer:
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def rates(schedule: torch.optim.lr_scheduler.LRScheduler, steps: int) -> list[float]:
    """The rate that each of the first updates uses."""
    found = []
    for _ in range(steps):
        found.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return found


def test_the_first_update_is_step_one() -> None:
    found = rates(Noam(optimizer(), d_model=512, warmup_steps=4000), 3)
    assert found == pytest.approx([512**-0.5 * step * 4000**-1.5 for step in (1, 2, 3)])


@pytest.mark.parametrize(("d_model", "peak"), [(512, 6.99e-4), (1024, 4.94e-4), (256, 9.88e-4)])
def test_peaks_are_the_papers(d_model: int, peak: float) -> None:
    assert noam(4000, d_model, 4000) == pytest.approx(peak, rel=2e-3)
    assert noam(3999, d_model, 4000) < noam(4000, d_model, 4000) > noam(4001, d_model, 4000)


def test_after_warmup_the_rate_falls_with_the_square_root() -> None:
    assert noam(16000, 512, 4000) == pytest.approx(noam(4000, 512, 4000) / 2)


def test_factor_and_base_rate_multiply() -> None:
    assert rates(Noam(optimizer(0.5), 64, 10, factor=3.0), 1)[0] == pytest.approx(1.5 * noam(1, 64, 10))


def test_a_warmup_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="warmup_steps must be at least 1, not 0"):
        Noam(optimizer(), 512, 0)


def test_constant() -> None:
    assert rates(Constant(optimizer(0.25)), 4) == [0.25] * 4
