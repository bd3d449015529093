"""Logs beside the curves, under a real Trainer on a network whose gradients are known."""

from collections.abc import Iterator
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers.logger import Logger
from torch import nn
from torch.utils.data import DataLoader

from repro.tasks.optim.schedules import Constant
from repro.tasks.task import Task
from repro.training import observe
from repro.training.callbacks import Curves
from repro.training.observe import GIB, Observer


class Slope(Task):
    """Its gradient is the mean of its inputs, and of ones for the bias; a layer behind it is frozen."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        super().__init__(
            nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.0), nn.Linear(1, 1)),
            lambda parameters: torch.optim.SGD(parameters, 0.1),
            Constant,
        )
        self.net[0].weight.data = torch.tensor([[3.0, 4.0]])
        self.net[0].bias.data = torch.tensor([12.0])
        self.net[2].weight.data = torch.tensor([[1.0]])
        self.net[2].requires_grad_(False)
        self.draws: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        self.draws.append(float(torch.rand(())))
        total = self.net(batch).sum()
        return {"loss": total, "sums": {"loss": total.detach().double(), "tokens": torch.tensor(len(batch))}}

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val/loss", torch.tensor(1.0), batch_size=1)


class Noted(Logger):
    """Keeps what is logged, by step."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, dict[str, float]]] = []

    name, version = "noted", "0"

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        assert step is not None
        self.rows.append((step, dict(metrics)))

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """Does nothing."""

    @property
    def observed(self) -> dict[int, dict[str, float]]:
        return {step: row for step, row in self.rows if "train/data_wait" in row}


class Batches:
    """Batches of two, of which the clock is told how long each takes."""

    def __init__(self, clock: "Clock", seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(8):
            self.clock.now += self.seconds
            yield torch.tensor([[3.0, 4.0], [3.0, 4.0]])

    def __len__(self) -> int:
        return 8


class Clock:
    """Stands for the module ``time``."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Slow(pl.Callback):
    """Lets the clock run in every step, and in validation."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_before_backward(self, *_: Any) -> None:
        self.clock.now += 3.0

    def on_validation_start(self, *_: Any) -> None:
        self.clock.now += 100.0


def fit(
    steps: int,
    every: int = 1,
    logged: bool = True,
    micro_batches: int = 1,
    wait: float = 1.0,
    validate: int = 8,
    **more: Any,
) -> tuple[Noted, Slope]:
    """Trains; a step takes 3 seconds, waiting for each batch ``wait``."""
    clock, noted, task = Clock(), Noted(), Slope()
    curves = Curves(every)
    observer = Observer(curves, lambda: 3 * GIB)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observe, "time", clock)
        trainer = pl.Trainer(
            max_steps=steps, accelerator="cpu", callbacks=[Slow(clock), curves, observer], logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            num_sanity_val_steps=0, accumulate_grad_batches=micro_batches, check_val_every_n_epoch=None,
            val_check_interval=validate * micro_batches, **more,
        )  # fmt: skip
        trainer.loggers = [noted] if logged else []
        trainer.fit(task, Batches(clock, wait), DataLoader([0], batch_size=None))  # type: ignore[arg-type]
    return noted, task


def test_norms_are_those_before_clipping_and_before_the_update_of_what_is_trained() -> None:
    noted, _ = fit(2, gradient_clip_val=0.01)
    first, second = noted.observed[1], noted.observed[2]
    assert first["train/grad_norm"] == pytest.approx(2 * (3**2 + 4**2 + 1) ** 0.5)
    assert first["train/param_norm"] == pytest.approx((3**2 + 4**2 + 12**2) ** 0.5)
    assert second["train/param_norm"] < first["train/param_norm"]


def test_the_norm_is_that_of_the_whole_update() -> None:
    noted, _ = fit(2, micro_batches=2)
    assert list(noted.observed) == [1, 2]
    assert noted.observed[1]["train/grad_norm"] == pytest.approx(2 * 26**0.5)


def test_only_updates_that_end_in_a_point_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third, that of a validation, and the last."""
    asked = []
    norm = observe.get_total_norm
    monkeypatch.setattr(observe, "get_total_norm", lambda tensors: asked.append(1) or norm(tensors))
    noted, _ = fit(7, every=3, validate=5)
    assert list(noted.observed) == [3, 5, 6, 7]
    assert all("train/grad_norm" in row for row in noted.observed.values())
    assert len(asked) == 2 * 4


def test_the_share_of_waiting_is_that_of_training_alone() -> None:
    noted, _ = fit(6, every=2, wait=1.0, validate=2)
    shares = [row["train/data_wait"] for row in noted.observed.values()]
    assert shares == pytest.approx([1 / 4] * 3), (
        "a second for a batch, three for a step; validation counts for neither"
    )


def test_memory() -> None:
    noted, _ = fit(3)
    assert [row["train/peak_memory_gib"] for row in noted.observed.values()] == [3.0] * 3


def test_training_is_the_same_and_nothing_is_counted_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, seen = fit(4, gradient_clip_val=0.5)
    monkeypatch.setattr(observe, "get_total_norm", None)
    noted, unseen = fit(4, logged=False, gradient_clip_val=0.5)
    assert noted.rows == []
    assert seen.draws == unseen.draws
    assert all(torch.equal(a, b) for a, b in zip(seen.parameters(), unseen.parameters(), strict=True))
