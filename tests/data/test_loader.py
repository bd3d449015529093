"""Positions of the training loader, alone and under a real Trainer."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from repro.data.loader import FixedLoader, PlannedLoader, ResumingData
from repro.errors import ReproError, UserError

LENGTH = 6


def plan(epoch: int) -> list[int]:
    return [100 * epoch + i for i in range(LENGTH)]


def build(item: int) -> Tensor:
    return torch.tensor([float(item)])


def planned(parts: int = 1, num_workers: int = 0) -> PlannedLoader[int, Tensor]:
    return PlannedLoader(plan, build, parts, num_workers)


def numbers(batches: Any) -> list[int]:
    return [int(batch) for batch in batches]


def test_each_pass_is_the_next_epoch() -> None:
    loader = planned()
    assert numbers(loader) == plan(0)
    assert numbers(loader) == plan(1)
    loader.set_epoch(7)
    assert numbers(loader) == plan(7)
    assert len(loader) == LENGTH


def test_asking_for_an_iterator_moves_nothing() -> None:
    loader = planned()
    iter(loader)
    next(iter(loader))
    assert loader.state_dict() == {"epoch": 0, "batch": 1, "parts": 1}
    assert numbers(iter(loader)) == plan(0)[1:]


@pytest.mark.parametrize("taken", range(LENGTH + 1))
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_restored_loader_continues_with_the_next_batch(taken: int, num_workers: int) -> None:
    if num_workers and taken not in (0, 4):
        pytest.skip("worker processes are slow to start")
    first = planned()
    first.set_epoch(2)
    source = iter(first)
    seen = [int(next(source)) for _ in range(taken)]
    second = planned(num_workers=num_workers)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    if taken < LENGTH:
        seen += numbers(second)
    assert seen == plan(2)
    assert numbers(second) == plan(3)


def test_workers_leave_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    assert numbers(planned(num_workers=2)) == plan(0)
    assert torch.equal(torch.rand(3), expected)


def test_a_position_inside_an_epoch_is_bound_to_its_micro_batches() -> None:
    loader = PlannedLoader(lambda epoch: list(range(12)), build, parts=2)
    with pytest.raises(UserError, match=r"accumulate_grad_batches 1.*now it is 2"):
        loader.load_state_dict({"epoch": 0, "batch": 3, "parts": 1})
    loader.load_state_dict({"epoch": 3, "batch": 6, "parts": 1})  # a whole epoch of 6 steps
    assert loader.state_dict() == {"epoch": 3, "batch": 12, "parts": 2}
    with pytest.raises(UserError, match="batch 13 of 12"):
        loader.load_state_dict({"epoch": 0, "batch": 13, "parts": 2})


def test_epochs_of_unequal_length_are_refused() -> None:
    loader = PlannedLoader(lambda epoch: list(range(3 + epoch)), build)
    assert numbers(loader) == [0, 1, 2]
    with pytest.raises(ReproError, match="epoch 1 has 4 batches, epoch 0 3"):
        list(loader)


def test_a_fixed_loader_starts_afresh_each_time() -> None:
    loader = FixedLoader(plan(0), build)
    next(iter(loader))
    assert numbers(loader) == numbers(loader) == plan(0)
    assert numbers(FixedLoader(plan(1), build, num_workers=1)) == plan(1)


class Recorder(LightningModule):
    """Remembers which batches it was trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[int] = []

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        self.seen.append(int(batch))
        return (self.weight * batch).sum()

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        pass

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class SaveAt(Callback):
    """Saves a checkpoint at one hook, the first time ``count`` batches have been seen."""

    def __init__(self, hook: str, count: int, path: Path) -> None:
        self.count, self.path = count, path
        self.at: int | None = None
        setattr(self, hook, self._save)

    def _save(self, trainer: Trainer, module: Recorder, *_: Any) -> None:
        if self.at is None and len(module.seen) >= self.count:
            self.at = len(module.seen)
            trainer.save_checkpoint(self.path)


class Data(ResumingData):
    """The smallest datamodule over a planned loader."""

    def train_dataloader(self) -> PlannedLoader[int, Tensor]:
        assert self.trainer is not None
        return self.placed(planned(self.trainer.accumulate_grad_batches))

    def val_dataloader(self) -> FixedLoader[int, Tensor]:
        return FixedLoader(plan(0)[:2], build)


def fit(limits: dict[str, Any], callbacks: list[Callback], checkpoint: Path | None = None) -> list[int]:
    module = Recorder()
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=callbacks, num_sanity_val_steps=0, **limits,
    )  # fmt: skip
    trainer.fit(module, Data(), ckpt_path=checkpoint, weights_only=False)
    return module.seen


@pytest.mark.parametrize(
    ("hook", "count"),
    [
        ("on_train_batch_end", 1),
        ("on_train_batch_end", 4),
        ("on_train_batch_end", LENGTH),
        ("on_validation_end", LENGTH),
        ("on_train_batch_end", LENGTH + 2),
        ("on_validation_end", 3),
        ("on_train_epoch_end", 2 * LENGTH),
    ],
)
@pytest.mark.parametrize(
    "limits",
    [
        {"max_steps": 3 * LENGTH, "max_epochs": -1, "val_check_interval": 3},
        {"max_steps": 9, "max_epochs": -1, "accumulate_grad_batches": 2},
        {"max_epochs": 3},
    ],
    ids=["steps", "accumulated", "epochs"],
)
def test_a_resumed_run_sees_what_an_uninterrupted_one_sees(
    tmp_path: Path, limits: dict[str, Any], hook: str, count: int
) -> None:
    saver = SaveAt(hook, count, tmp_path / "x.ckpt")
    whole = fit(limits, [saver])
    assert whole == plan(0) + plan(1) + plan(2)
    assert saver.at is not None
    if limits.get("accumulate_grad_batches") and saver.at % 2:
        pytest.skip("inside a step: its first half is lost with its gradient")
    resumed = fit(limits, [], tmp_path / "x.ckpt")
    assert whole[: saver.at] + resumed == whole
