"""Learning-rate schedules."""

import math
import warnings
from typing import Any

import pytest
import torch

from repro.tasks.optim.schedules import Constant, InverseSquareRoot, Noam, WarmupCosine, noam


def optimizer(lr: float = 1.0) -> torch.optim.Optimizer:
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def rates(schedule: torch.optim.lr_scheduler.LRScheduler, steps: int) -> list[float]:
    """The rate that each of the first updates uses."""
    result = []
    for _ in range(steps):
        result.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return result


def test_the_first_update_is_step_one() -> None:
    result = rates(Noam(optimizer(), d_model=512, warmup_steps=4000), 3)
    assert result == pytest.approx([512**-0.5 * step * 4000**-1.5 for step in (1, 2, 3)])


@pytest.mark.parametrize(("d_model", "peak"), [(512, 6.99e-4), (1024, 4.94e-4), (256, 9.88e-4)])
def test_peaks_are_the_papers(d_model: int, peak: float) -> None:
    assert noam(4000, d_model, 4000) == pytest.approx(peak, rel=2e-3)
    assert noam(3999, d_model, 4000) < noam(4000, d_model, 4000) > noam(4001, d_model, 4000)


def test_inverse_square_root_grows_from_its_first_rate_to_the_peak_and_falls() -> None:
    result = rates(InverseSquareRoot(optimizer(7e-4), warmup_steps=6000, first=1e-7), 24001)
    assert result[0] == pytest.approx(1e-7)
    assert result[1] == pytest.approx(1e-7 + (7e-4 - 1e-7) / 6000)
    assert result[3000] == pytest.approx((7e-4 + 1e-7) / 2)
    assert result[6000] == pytest.approx(7e-4) == max(result)
    assert result[6001] == pytest.approx(7e-4 * (6000 / 6001) ** 0.5)
    assert result[24000] == pytest.approx(3.5e-4)


@pytest.mark.parametrize("wrong", [{"warmup_steps": 0}, {"warmup_steps": 5, "first": -1e-7}])
def test_inverse_square_root_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"warmup_steps.*1"):
        InverseSquareRoot(optimizer(), **wrong)


def test_inverse_square_root_of_no_rate() -> None:
    with pytest.raises(ValueError, match=r"lr must be above 0, not 0"):
        InverseSquareRoot(optimizer(0.0), warmup_steps=5)


def test_after_warmup_the_rate_falls_with_the_square_root() -> None:
    assert noam(16000, 512, 4000) == pytest.approx(noam(4000, 512, 4000) / 2)


def test_factor_and_base_rate_multiply() -> None:
    assert rates(Noam(optimizer(0.5), 64, 10, factor=3.0), 1)[0] == pytest.approx(1.5 * noam(1, 64, 10))


def test_a_warmup_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="warmup_steps 0 must be"):
        Noam(optimizer(), 512, 0)
    with pytest.raises(ValueError, match="d_model 0 and"):
        Noam(optimizer(), 0, 4)


def test_constant() -> None:
    assert rates(Constant(optimizer(0.25)), 4) == [0.25] * 4


def test_growth_then_half_a_cosine() -> None:
    result = rates(WarmupCosine(optimizer(2.0), steps=12, warmup_steps=4, first=0.1, last=0.2), 15)
    assert result[:5] == pytest.approx([0.2, 0.65, 1.1, 1.55, 2.0])
    assert result[8] == pytest.approx(2.0 * 0.6), "halfway between the peak and the end"
    assert result[12:] == pytest.approx([0.4] * 3)
    assert sorted(result[4:], reverse=True) == result[4:]


def test_a_cosine_from_the_start_is_only_cut_off_by_the_growth() -> None:
    whole = rates(WarmupCosine(optimizer(), steps=10), 10)
    cut = rates(WarmupCosine(optimizer(), steps=10, warmup_steps=4, from_start=True), 10)
    assert cut[4:] == pytest.approx(whole[4:])
    assert cut[:4] == pytest.approx([0, 0.25, 0.5, 0.75])
    assert whole == pytest.approx([0.5 * (1 + math.cos(math.pi * step / 10)) for step in range(10)])


def test_a_growth_that_is_set_behind_the_first_update() -> None:
    settings: dict[str, Any] = {"steps": 10, "warmup_steps": 4, "from_start": True}
    result = rates(WarmupCosine(optimizer(2.0), **settings, peak_first=True), 10)
    assert result[0] == 2.0
    assert result[1:] == rates(WarmupCosine(optimizer(2.0), **settings), 10)[1:]


def test_a_cosine_in_cycles_starts_again_at_the_peak() -> None:
    result = rates(WarmupCosine(optimizer(2.0), steps=20, warmup_steps=3, cycle=5), 20)
    trax = [2 * min(1, n / 3) * 0.5 * (1 + math.cos(math.pi * (max(0, n - 3) / 5 % 1))) for n in range(20)]
    assert result == pytest.approx(trax)
    assert [n for n in range(20) if result[n] == 2.0] == [3, 8, 13, 18]


def test_a_cosine_that_moves_seldom_is_that_of_the_sorting_code() -> None:
    """deep-spin/infinite-former, sorting/train.py, lines 618 to 640: batches are counted from 1, and in those that
    ``every`` divides the scheduler is set to the batch's number behind each segment; the last segment has the gradient.
    """
    steps, every, segments = 20, 6, 3
    official = optimizer(2.0)
    scheduler, result = torch.optim.lr_scheduler.CosineAnnealingLR(official, steps), []
    for batch in range(1, steps + 1):
        for segment in range(segments):
            if segment == segments - 1:
                result.append(official.param_groups[0]["lr"])
            official.step()
            if batch % every == 0:
                with warnings.catch_warnings():  # a number is deprecated
                    warnings.simplefilter("ignore")
                    scheduler.step(batch)
    assert rates(WarmupCosine(optimizer(2.0), steps, every=every), steps) == pytest.approx(result, rel=1e-12)
    assert result[4] == 2.0 > result[5], "moved in the sixth batch"


def test_a_cosine_that_moves_seldom_stands_at_the_peak_behind_its_growth() -> None:
    result = rates(WarmupCosine(optimizer(), steps=20, warmup_steps=3, every=5), 20)
    cosine = [0.5 * (1 + math.cos(math.pi * (n - 3) / 17)) for n in (5, 10, 15, 20)]
    assert result == pytest.approx(
        [0, 1 / 3, 2 / 3, 1] + [value for value in cosine[:3] for _ in range(5)] + cosine[3:]
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"warmup_steps": 10}, "below steps 10, not 10"), ({"warmup_steps": -1}, "not -1"), ({"first": 2.0}, "shares of"),
     ({"last": -0.1}, "shares of"), ({"cycle": 0}, "at least 1, not 0"),
     ({"every": 0}, "every must be at least 1, not 0")],
)  # fmt: skip
def test_a_cosine_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WarmupCosine(optimizer(), steps=10, **settings)


def test_torchs_nesterov_rescales_its_velocity_as_fairseqs() -> None:
    """fairseq's ``nag`` keeps ``v = -rate x velocity`` and multiplies it by ``rate / rate before``."""
    changing, momentum = [0.1, 0.2, 0.05, 0.05, 0.3, 0.1], 0.99
    weight = torch.nn.Parameter(torch.tensor([0.3], dtype=torch.float64))
    torchs = torch.optim.SGD([weight], lr=0.1, momentum=momentum, nesterov=True)
    w, v, before = 0.3, 0.0, changing[0]
    for rate in changing:
        torchs.param_groups[0]["lr"] = rate
        torchs.zero_grad()
        (weight**4 + weight).sum().backward()
        torchs.step()
        g = 4 * w**3 + 1
        kept = momentum * rate / before
        w, v, before = w + momentum * kept * v - (1 + momentum) * rate * g, kept * v - rate * g, rate
        assert float(weight) == pytest.approx(w, rel=1e-12)
