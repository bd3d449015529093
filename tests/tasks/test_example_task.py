"""Common behaviour of tasks over examples: whole splits counted once, over ranks, and the record."""

from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torchmetrics
from torch import nn

from repro.batches import Evaluation, ExampleBatch, Examples, FirstExamples
from repro.data.core.generated import GeneratedData
from repro.data.core.loader import FixedLoader
from repro.data.core.shares import Share
from repro.errors import UserError
from repro.nn.settings import CallSettings
from repro.tasks import Constant
from repro.tasks.evaluated import Metrics, Scored, drawing_from
from repro.tasks.example_task import ExampleTask
from repro.tasks.metrics.means import Mean
from tests.tasks.streams import trainer

TRAIN, EVAL = 12, 9


class Counting(GeneratedData):
    """Example i of a split is the number i, but for 100 times more in ``val`` and ten times in training."""

    store_name = "counting"
    made_of = ()
    input_size = seq_len = n_classes = 1

    def __init__(self, eval_batch_size: int = 4) -> None:
        super().__init__(4, TRAIN, EVAL, eval_batch_size, 0, 0)

    def examples(self, split: str, indices: Any, epoch: int | None) -> Examples:
        times = {"train": 10, "val": 100, "test": 1}[split]
        values = torch.from_numpy(times * np.asarray(indices)).float()[:, None]
        return Examples(values, torch.zeros(len(values), 1, dtype=torch.long))


class Adding(ExampleTask):
    """Adds its examples up, times a factor, and a random number for each batch."""

    UNITS: ClassVar[dict[str, str]] = {"mean": "apples", "noise": "pears"}

    def __init__(self) -> None:
        super().__init__(nn.Linear(1, 1), partial(torch.optim.SGD, lr=0.1), Constant)
        self.factor = 1.0
        self.drawn: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        self.drawn.append(float(torch.rand(())))
        sums = {"loss": torch.zeros((), dtype=torch.float64), "tokens": 4}
        return {"loss": self.net(batch.examples.inputs).sum() * 0.0, "sums": sums}

    def metrics(self, evaluation: Evaluation) -> Metrics:
        return {"mean": Mean(), "noise": Mean()}

    def score_examples(self, examples: Examples, settings: CallSettings, metrics: Metrics) -> None:
        assert len(examples.inputs), "nothing to score"
        metrics["mean"].update(self.factor * examples.inputs.sum(), len(examples.inputs))
        metrics["noise"].update(torch.rand(()), 1)


class Several(Adding):
    """In further ways: by threes, and the first five of training."""

    def tests(self) -> list[Evaluation]:
        more = [Evaluation("test", "threefold"), Evaluation("val", "threefold")]
        return [*super().tests(), *more, Evaluation("train", selection=FirstExamples(5))]

    def score(self, batch: ExampleBatch, evaluation: Evaluation, metrics: Metrics) -> None:
        self.factor = 3.0 if evaluation.name else 1.0
        super().score(batch, evaluation, metrics)

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        return {**super().protocol(metric, scored), "metric": metric, "name": scored.evaluation.name}


def measured(task: Adding, data: Counting | None = None) -> dict[str, Any]:
    trainer(1).test(task, datamodule=data or Counting(), verbose=False)
    result = {m.name: m for m in task.measurements()}
    assert len(result) == len(task.measurements()), "no name twice"
    return result


def test_names() -> None:
    assert Evaluation("test").called("loss") == "test/loss"
    assert Evaluation("val", "lsh8").called("accuracy") == "val/accuracy_lsh8"


@pytest.mark.parametrize("size", [1, 4, 9, 50])
def test_every_example_counts_once(size: int) -> None:
    result = measured(Several(), Counting(size))
    assert result["test/mean"].value == sum(range(EVAL)) / EVAL
    assert result["val/mean"].value == 100 * sum(range(EVAL)) / EVAL
    assert result["test/mean_threefold"].value == 3 * sum(range(EVAL)) / EVAL
    assert result["train/mean"].value == 10 * sum(range(5)) / 5


def test_what_stands_in_the_record() -> None:
    """Every metric of every evaluation, but what validated a further one: that stands beside it."""
    result = measured(Several())
    kinds = ("test/{}", "val/{}", "test/{}_threefold", "train/{}")
    assert set(result) == {kind.format(metric) for kind in kinds for metric in ("mean", "noise")}
    mean, further, trained = result["test/mean"], result["test/mean_threefold"], result["train/mean"]
    assert (mean.unit, result["test/noise"].unit) == ("apples", "pears")
    assert mean.validation == result["val/mean"].value
    assert further.validation == 3 * result["val/mean"].value
    assert result["val/mean"].validation is None
    assert trained.validation is None
    assert [one.split for one in (mean, result["val/mean"], trained)] == ["test", "val", "train"]
    assert (mean.count, trained.count) == (EVAL, 5)
    assert further.protocol == {"examples": EVAL, "metric": "mean", "name": "threefold"}
    assert trained.protocol == {"examples": 5, "metric": "mean", "name": ""}


def test_validation_in_training_is_of_the_whole_split() -> None:
    run = trainer(4, val_check_interval=2)
    run.fit(Adding(), datamodule=Counting())
    assert float(run.callback_metrics["val/mean"]) == pytest.approx(100 * sum(range(EVAL)) / EVAL)
    assert set(run.callback_metrics) == {"val/mean", "val/noise"}


class Uncounted(torchmetrics.Metric):
    """A metric that does not say of how many items it is."""

    def update(self) -> None:
        pass

    def compute(self) -> float:
        return 0.0


class Named(Mean):
    """Mean, under a name of its own."""

    def compute(self) -> dict[str, float]:  # type: ignore[override]
        return {"pounds": super().compute()}


@pytest.mark.parametrize(
    ("metrics", "message", "updates"),
    [
        ({"weight": Mean()}, r"Adding\.UNITS has no 'weight'; add it: {'weight': 'percent'}", 0),
        ({"mean": Uncounted()}, "Adding: metric 'mean' has no `count`, the number of its items", 0),
        ({"mean": Mean(), "noise": Named()}, r"Adding\.UNITS has no 'pounds'", 2),
    ],
)
def test_a_metric_without_unit_or_count_is_refused_before_it_is_recorded(
    metrics: Metrics, message: str, updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before training; or, as only the metric knows the names of its scores, at the first validation."""
    monkeypatch.setattr(Adding, "metrics", lambda *_: metrics)
    task = Adding()
    with pytest.raises(UserError, match=message):
        trainer(4, val_check_interval=2).fit(task, datamodule=Counting())
    assert len(task.drawn) == updates


class Short(Counting):
    def evaluation_loader(self, evaluation: Evaluation) -> FixedLoader[Any, Any]:
        few = evaluation if evaluation.kind != "test" else Evaluation("test", "", FirstExamples(EVAL - 1))
        return super().evaluation_loader(few)


def test_an_example_too_few_is_noticed() -> None:
    with pytest.raises(RuntimeError, match=r"test: 8.*9"):
        measured(Adding(), Short())


@pytest.mark.parametrize("world", [2, 4, 12])
def test_shares_of_ranks_add_up(world: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank after another; with 12 ranks three of them have no example and wait for the others all the same."""
    parts: list[Any] = []
    monkeypatch.setattr(Adding, "on_test_epoch_end", lambda task: parts.append(task._evaluations[0]))
    for rank in range(world):
        monkeypatch.setattr(Counting, "share", Share(rank, world))
        trainer(1).test(Adding(), datamodule=Counting(), verbose=False)
    assert [int(part.examples.count) for part in parts] == [
        len(range(rank, EVAL, world)) for rank in range(world)
    ]
    first, *others = parts
    for other in others:
        first.metrics["mean"].merge_state(other.metrics["mean"])
        first.examples.merge_state(other.examples)
    scored = first.computed("test")
    assert scored.values["mean"] == sum(range(EVAL)) / EVAL
    assert scored.counts["examples"] == scored.counts["mean"] == EVAL


# --- random numbers -------------------------------------------------------------------------------------------------


def test_random_numbers_depend_on_a_place_alone() -> None:
    def drawn(place: int) -> list[float]:
        with drawing_from(place, torch.device("cpu")):
            return torch.rand(3).tolist()

    torch.manual_seed(5)
    first = [drawn(0), drawn(4)]
    goes_on = torch.rand(3).tolist()
    torch.manual_seed(5)
    assert torch.rand(3).tolist() == goes_on, "as if nothing was drawn"
    assert [drawn(0), drawn(4)] == first
    assert first[0] != first[1]


def test_a_batch_draws_what_its_first_example_says() -> None:
    expected = 0.0
    for place in (0, 4, 8):
        with drawing_from(place, torch.device("cpu")):
            expected += float(torch.rand(()))
    torch.manual_seed(6)
    for task in (Adding(), Several()):
        result = measured(task)
        assert result["test/noise"].value == pytest.approx(expected / 3, rel=1e-6)
        assert result["val/noise"].value == result["test/noise"].value, "the same for each evaluation"


def test_training_goes_on_as_if_nothing_was_scored() -> None:
    drawn = []
    for settings in ({"val_check_interval": 1}, {"limit_val_batches": 0}):
        task = Adding()
        torch.manual_seed(7)
        trainer(5, **settings).fit(task, datamodule=Counting())
        drawn.append(task.drawn)
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 5
