"""Common behaviour of datamodules: the position in training, evaluations, declarations."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from torch import Tensor

import repro.data
from repro.batches import (
    Batch,
    Evaluation,
    ExampleBatch,
    FirstExamples,
    PairBatch,
    RandomBatches,
    StreamBatch,
    TextCut,
)
from repro.data import BitXorData, DataModule, EchoData
from repro.data.core.shares import Share
from tests.data.running import SaveAt, placed, train

LENGTH = 6
SIZES = {"train": LENGTH, "held": 2, "test": 3}


def plan(epoch: int) -> list[int]:
    return [100 * epoch + i for i in range(LENGTH)]


def build(item: int) -> Tensor:
    return torch.tensor([float(item)])


class Small(DataModule):
    """The smallest datamodule: a batch is a number; evaluations begin at a number of their split."""

    selections = (FirstExamples,)
    val_split = "held"
    manifest_sha256 = ""
    counts: dict[str, dict[str, int]] = {}

    def __init__(self) -> None:
        super().__init__(seed=0, num_workers=0)

    def plan_epoch(self, epoch: int) -> Sequence[int]:
        return plan(epoch)

    def plan_evaluation(self, evaluation: Evaluation) -> Sequence[int]:
        first = {"train": 0, "held": 1000, "test": 2000}[self.split(evaluation.kind)]
        return range(first, first + self.expected(evaluation)["examples"])

    def builder(self, split: str) -> Callable[[int], Tensor]:
        return build

    def expected(self, evaluation: Evaluation) -> dict[str, int]:
        how, size = evaluation.selection, SIZES[self.split(evaluation.kind)]
        return {"examples": how.count if isinstance(how, FirstExamples) else size}


def numbers(batches: Any) -> list[int]:
    return [int(batch) for batch in batches]


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
    saver = SaveAt(count, tmp_path / "x.ckpt", hook)
    whole = train(Small(), int, [saver], **limits).seen
    assert whole == plan(0) + plan(1) + plan(2)
    assert saver.at is not None
    if limits.get("accumulate_grad_batches") and saver.at % 2:
        pytest.skip("inside a step: its first half is lost with its gradient")
    resumed = train(Small(), int, resume=tmp_path / "x.ckpt", **limits).seen
    assert whole[: saver.at] + resumed == whole


def test_its_position_is_its_state() -> None:
    module = placed(Small(), micro_batches=2)
    assert module.state_dict() == {}
    loader = iter(module.train_dataloader())
    assert [int(next(loader)) for _ in range(3)] == [0, 1, 2]
    assert module.state_dict() == {"train": {"epoch": 0, "batch": 3, "parts": 2}}
    again = placed(Small(), micro_batches=2)
    again.load_state_dict(module.state_dict())
    assert numbers(again.train_dataloader()) == [3, 4, 5]
    assert numbers(again.train_dataloader()) == plan(0), "a saved position is used once"


def test_without_a_saved_position_training_begins_with_the_epoch_of_the_trainer() -> None:
    module = placed(Small())
    module.trainer.current_epoch = 2
    module.load_state_dict({})
    assert numbers(module.train_dataloader()) == plan(2)


def test_evaluating_a_checkpoint_does_not_move_training() -> None:
    module = Small()
    module.trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    module.load_state_dict({"train": {"epoch": 4, "batch": 1, "parts": 1}})  # no fit is running
    assert module.train_dataloader().state_dict() == {"epoch": 0, "batch": 0, "parts": 1}


def test_its_share_is_its_place_in_the_trainer() -> None:
    assert Small().share == Share(rank=0, world=1, micro_batches=1)
    assert placed(Small(), 1, 3, 2).share == Share(rank=1, world=3, micro_batches=2)


def test_a_kind_of_split_has_the_name_that_was_given() -> None:
    assert [Small().split(kind) for kind in ("train", "val", "test")] == ["train", "held", "test"]


def test_loaders_give_the_evaluations_that_were_asked_for() -> None:
    module = Small()
    held, tested = [1000, 1001], [2000, 2001, 2002]
    assert numbers(module.val_dataloader()) == held
    assert [numbers(loader) for loader in module.test_dataloader()] == [tested, held]
    first = Evaluation("test", selection=FirstExamples(1))
    module.evaluate_with(first, [Evaluation("val"), first, Evaluation("train")])
    assert numbers(module.val_dataloader()) == [2000]
    assert [numbers(loader) for loader in module.test_dataloader()] == [held, [2000], plan(0)]
    assert numbers(module.predict_dataloader()) == tested


def test_an_evaluation_names_its_measurements() -> None:
    assert Evaluation("val").called("bleu") == "val/bleu"
    assert Evaluation("test", "overlapping").called("perplexity") == "test/perplexity_overlapping"


OTHERS: dict[str, type[Batch]] = {
    "TextData": StreamBatch, "EchoData": StreamBatch, "StreamData": StreamBatch,
    "TranslationData": PairBatch, "ParsingData": PairBatch,
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in repro.data.__all__ if name.endswith("Data")])
def test_every_datamodule_declares_what_its_batches_are(name: str) -> None:
    kind = getattr(repro.data, name)
    assert issubclass(kind, DataModule)
    assert kind.batch is OTHERS.get(name, ExampleBatch)
    assert inspect.isabstract(kind) == (name in {"StreamData", "ExampleData"}), "a recipe makes the others"


@pytest.mark.parametrize("selection", [TextCut(4), RandomBatches(1, 2)])
def test_a_selection_of_another_kind_is_refused(selection: TextCut | RandomBatches) -> None:
    module = (
        BitXorData(4) if isinstance(selection, TextCut) else EchoData(5, batch_tokens=8, seq_len=4, lag=3)
    )
    with pytest.raises(ValueError, match=type(selection).__name__):
        module.evaluate_with(Evaluation("val"), [Evaluation("test", selection=selection)])
