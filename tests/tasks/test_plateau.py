"""The rate that goes by validations: when it falls, and that an interrupted run sees the same rates."""

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader

from repro.errors import UserError
from repro.tasks import Plateau
from repro.training.checkpoints import DurableIO, checkpoint_path
from repro.training.saving import Checkpoints, StepCheckpoints
from tests.tasks.toy import BATCHES, Toy

# of each validation, one every second update: best, stall, best, stall, stall, stall, best
VALUES = [5.0, 5.0, 4.0, 4.5, 4.0, 4.5, 3.0, 3.5]
# of the updates, two between validations
HALVED = [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625, 0.0625, 0.0625]
PATIENT = [1.0] * 10 + [0.5] * 6


def schedule(**settings: Any) -> Plateau:
    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    groups = [{"params": [parameters[0]]}, {"params": [parameters[1]], "lr": 0.25}]
    return Plateau(torch.optim.SGD(groups, lr=1.0), **settings)


def rates(made: Plateau) -> list[float]:
    return [group["lr"] for group in made.optimizer.param_groups]


def test_it_falls_when_there_is_no_new_best() -> None:
    made, result = schedule(), []
    for value in VALUES:
        made.observe(value)
        result.append(rates(made)[0])
        made.optimizer.step()
        made.step()
        assert rates(made) == [result[-1], result[-1] / 4], (
            "an update changes nothing; groups keep their proportion"
        )
    assert result == [1.0, 0.5, 0.5, 0.25, 0.125, 0.0625, 0.0625, 0.03125]
    assert made.get_last_lr()[0] == 0.03125


def test_patience_lets_stalls_pass_and_counts_anew() -> None:
    made, result = schedule(patience=1, factor=0.1), []
    for value in [3.0, 3.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0, 1.0]:
        made.observe(value)
        result.append(rates(made)[0])
    assert result == pytest.approx([1, 1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01])


def test_what_is_no_number_is_no_new_best() -> None:
    made = schedule()
    for value in (1.0, float("nan")):
        made.observe(value)
    assert (rates(made)[0], made.best) == (0.5, 1.0)


def test_its_state_is_what_it_has_seen() -> None:
    made = schedule(patience=1)
    for value in (3.0, 2.0, 2.5, 2.5, 2.5):
        made.observe(value)
    other = schedule(patience=7, factor=0.1, metric="val/per")
    other.load_state_dict(made.state_dict())
    assert (other.best, other.stalled, other.reductions) == (2.0, 1, 1)
    assert (other.patience, other.factor, other.metric) == (7, 0.1, "val/per"), "settings are the recipe's"


@pytest.mark.parametrize("settings", [{"factor": 1.0}, {"factor": 0.0}, {"patience": -1}])
def test_numbers_out_of_range(settings: dict[str, Any]) -> None:
    name, value = next(iter(settings.items()))
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        schedule(**settings)


class Rates(pl.Callback):
    """Writes down the rate of every update."""

    def __init__(self) -> None:
        self.found: dict[int, float] = {}

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self.found[trainer.global_step] = trainer.optimizers[0].param_groups[0]["lr"]


class Staged(Toy):
    """A task with the validation scores above."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.optimizer_maker = lambda parameters: torch.optim.SGD(parameters, lr=1.0)
        self.schedule_maker = lambda optimizer: Plateau(optimizer, **settings)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val/loss", torch.tensor(VALUES[self.global_step // 2 - 1]), batch_size=1)


def trained(folder: Path, steps: int, every: int, resume: Path | None = None, **settings: Any) -> list[float]:
    """The rates of the updates of a run that validates every second update and saves now and then."""
    files, rates = DurableIO(), Rates()
    trainer = pl.Trainer(
        max_steps=steps, accelerator="cpu", callbacks=[StepCheckpoints(folder, Checkpoints(every), files), rates],
        plugins=[files], logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=0, check_val_every_n_epoch=None, val_check_interval=2,
    )  # fmt: skip
    loaders = DataLoader(BATCHES, batch_size=None), DataLoader([0], batch_size=None)
    trainer.fit(Staged(**settings), *loaders, ckpt_path=resume, weights_only=True)
    return [rate for _, rate in sorted(rates.found.items())]


@pytest.mark.parametrize(("settings", "expected"), [({}, HALVED), ({"patience": 1}, PATIENT)])
def test_a_task_shows_it_every_validation(
    tmp_path: Path, settings: dict[str, Any], expected: list[float]
) -> None:
    assert trained(tmp_path, 16, 100, **settings) == expected


@pytest.mark.parametrize("step", [3, 4, 8, 10, 11])
def test_an_interrupted_run_has_the_same_rates(tmp_path: Path, step: int) -> None:
    """4, 8 and 10 are saved before the validation that follows them, which lowers the rate at 4, 8 and 10."""
    assert trained(tmp_path, step + 1, step) == HALVED[: step + 1]
    resumed = trained(tmp_path, 16, 100, checkpoint_path(tmp_path, step))
    assert resumed == HALVED[step:]


def test_a_metric_that_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model.schedule.metric: 'val/per'.*val/loss"):
        trained(tmp_path, 4, 100, metric="val/per")
