"""Scoring a model on whole splits: metrics over all ranks, and the measurements for the record."""

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from repro.batches import Batch, Evaluation
from repro.errors import UserError
from repro.record import Measurement
from repro.tasks.lightning_private import datamodule_of
from repro.tasks.metrics.means import Count
from repro.tasks.metrics.sentences import one_line
from repro.tasks.ranks import gather_rows
from repro.tasks.task import Net, OptimizerMaker, ScheduleMaker, Task

Metrics = dict[str, Any]  # of torchmetrics, each with a `count` of what was added
EVALUATION_SEED = 2026  # of what a network draws while it is scored: hash functions


class Scored(NamedTuple):
    """The result of an evaluation.

    Attributes:
        evaluation: its settings.
        split: its name.
        values: every score by name.
        counts: number of items of each score, by name; ``examples``, the rows that were scored, and ``tokens``, the
            targets of the loss.
        seconds: duration on this rank; 0 where it does not matter.
    """

    evaluation: Evaluation
    split: str
    values: dict[str, float]
    counts: dict[str, int]
    seconds: float = 0.0


class EvaluatedTask(Task[Net]):
    """Base of the tasks that score a model on splits, one evaluation after another.

    Subclasses define the metrics of an evaluation (:meth:`metrics`) and update them (:meth:`score`). What a network
    draws meanwhile depends on the rows of a batch alone, so on the size of evaluation batches and on the number of
    ranks, which share the rows out. That everything was scored once is checked against what the data expect. One whose
    test has outputs that may be shown names their :attr:`COLUMNS`, the output last, and puts a row for each into
    ``_rows`` by its place in the split.

    Attributes:
        UNITS: the unit of every metric, for people.
        TEST_ONLY: metrics of these that no validation during training measures.
        tested: results of the last test, in the order of :meth:`tests`.
        shown: rows of the last test that may be shown, over all ranks.
    """

    UNITS: ClassVar[dict[str, str]] = {}
    TEST_ONLY: ClassVar[tuple[str, ...]] = ()
    COLUMNS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, net: nn.Module, optimizer: OptimizerMaker, schedule: ScheduleMaker) -> None:
        super().__init__(net, optimizer, schedule)
        self.tested: list[Scored] = []
        self.shown: list[tuple[str, ...]] = []
        self._rows: dict[Any, tuple[str, ...]] = {}  # of this rank
        self._evaluations: list[_UnderWay] = []
        self._current = (-1, 0.0)  # which is under way, and since when

    @property
    def vocabulary_size(self) -> int | None:
        """Number of symbols of the network's vocabulary; None without a vocabulary."""
        return getattr(getattr(self.net, "vocabulary", None), "size", None)

    @abstractmethod
    def metrics(self, evaluation: Evaluation) -> Metrics:
        """New metrics of one evaluation. A metric that computes several scores names them itself."""

    @abstractmethod
    def score(self, batch: Any, evaluation: Evaluation, metrics: Metrics) -> None:
        """Updates the metrics with a batch that has rows."""

    def complete(self, evaluation: Evaluation, metrics: Metrics) -> None:
        """Called on every rank when the metrics of an evaluation are computed, before they are logged."""
        if evaluation.kind == "test":
            self.shown = gather_rows(self._rows)

    def summary(self, scored: Scored) -> dict[str, float]:
        """Every score of an evaluation."""
        return scored.values

    def reported(self, evaluation: Evaluation) -> bool:
        """Whether an evaluation has measurements of its own, and not only as the validation score of a test."""
        return True

    @property
    def units(self) -> dict[str, str]:
        """The unit of every metric, for people."""
        return self.UNITS

    @property
    def validation_scores(self) -> list[str]:
        """The names under which a validation during training logs its scores."""
        return [f"val/{name}" for name in self.units if name not in self.TEST_ONLY]

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """The protocol by which a metric of an evaluation was measured, for the record."""
        return {"examples": scored.counts["examples"]}

    def counted(self, metric: str, scored: Scored) -> int:
        """Returns the number of items of a metric."""
        return scored.counts.get(metric, scored.counts["examples"])

    # --- validation and test ------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Refuses, before training, a metric without a unit or a count; see also :meth:`Task.setup`.

        Raises:
            UserError: there is one.
        """
        super().setup(stage)
        if stage != "fit" or datamodule_of(self.trainer) is None:
            return
        for evaluation in (self.validation(), *self.tests()):
            metrics = self.metrics(evaluation)
            self._require_units(name for name, metric in metrics.items() if not _names_scores(metric))
            for name, metric in metrics.items():
                if "count" not in dir(metric):
                    raise UserError(
                        f"{type(self).__name__}: metric {name!r} has no `count`, the number of its items; give it one"
                    )

    def _require_units(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.units:
                raise UserError(
                    f"{type(self).__name__}.UNITS has no {name!r}; add it: {{{name!r}: 'percent'}}"
                )

    def on_validation_epoch_start(self) -> None:
        self._begin([self.validation()])

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._add(batch, 0)

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            self._log(self._end()[0])

    def on_test_epoch_start(self) -> None:
        self._rows = {}
        self._begin(list(self.tests()))

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._add(batch, dataloader_idx)

    def on_test_epoch_end(self) -> None:
        self.tested = self._end()
        self._log(self.tested[0])

    def _begin(self, evaluations: list[Evaluation]) -> None:
        self._evaluations = [
            _UnderWay(evaluation, self.metrics(evaluation), Count()).to(self.device)
            for evaluation in evaluations
        ]
        self._current = (-1, 0.0)

    @torch.no_grad()
    def _add(self, batch: Batch, index: int) -> None:
        """Updates the metrics of an evaluation."""
        if index != self._current[0]:
            self._turn_to(index)
        if len(batch.indices):  # none on a rank without work of its own
            current = self._evaluations[index]
            with drawing_from(int(batch.indices[0]), self.device):
                self.score(batch, current.evaluation, current.metrics)
            current.examples.update(len(batch.indices))

    def _turn_to(self, index: int) -> None:
        """Stops the clock of the evaluation under way, and starts that of another."""
        (before, since), now = self._current, self.now()
        if before >= 0:
            self._evaluations[before].seconds = now - since
        self._current = (index, now)

    def _end(self) -> list[Scored]:
        """Computes all metrics, and checks that everything was scored once."""
        self._turn_to(-1)
        results = []
        for current in self._evaluations:
            scored = current.computed(self.data.split(current.evaluation.kind))
            for counted, expected in self.data.expected(current.evaluation).items():
                if scored.counts[counted] != expected:
                    raise RuntimeError(
                        f"{scored.split}: {scored.counts[counted]} {counted} were scored, not {expected}"
                    )
            self.complete(current.evaluation, current.metrics)
            results.append(scored)
        self._evaluations = []
        return results

    def _log(self, scored: Scored) -> None:
        """Logs the scores of an evaluation, but no speeds, which a resumed run would not repeat."""
        summary = self.summary(scored._replace(seconds=0.0))
        self._require_units(summary)
        self.log_dict({f"{scored.evaluation.kind}/{name}": value for name, value in summary.items()})

    # --- the record ---------------------------------------------------------------------------------------------

    def samples(self, count: int = 20) -> tuple[list[str], list[list[str]]]:
        """The first rows of the test that may be shown: column names and rows."""
        return (list(self.COLUMNS), [list(row) for row in self.shown[:count]]) if self.shown else ([], [])

    def outputs(self) -> str | None:
        """The outputs of the test, one a line; None where there are none, or none may be shown."""
        return "".join(f"{one_line(row[-1])}\n" for row in self.shown) or None

    def measurements(self) -> list[Measurement]:
        """Every metric of every evaluation; a test score includes the validation score of its setting."""
        validated = {
            scored.evaluation.name: self.summary(scored)
            for scored in self.tested
            if scored.evaluation.kind == "val"
        }
        results = []
        for scored in self.tested:
            if not self.reported(scored.evaluation):
                continue
            validation = validated.get(scored.evaluation.name, {}) if scored.evaluation.kind == "test" else {}
            for metric, value in self.summary(scored).items():
                results.append(
                    Measurement(
                        scored.evaluation.called(metric), value, self.units[metric], scored.split,
                        self.protocol(metric, scored), self.counted(metric, scored), validation.get(metric),
                    )
                )  # fmt: skip
        return [*results, *super().measurements()]


def _names_scores(metric: Any) -> bool:
    """Whether a metric is annotated to compute several scores, by their names."""
    return "dict" in str(getattr(type(metric).compute, "__annotations__", {}).get("return"))


@dataclass
class _UnderWay:
    """An evaluation under way."""

    evaluation: Evaluation
    metrics: Metrics
    examples: Count
    seconds: float = 0.0

    def to(self, device: torch.device) -> "_UnderWay":
        for metric in (*self.metrics.values(), self.examples):
            metric.to(device)
        return self

    def computed(self, split: str) -> Scored:
        """Computes the scores over all ranks, and the number of items of each."""
        values: dict[str, float] = {}
        counts = {"examples": int(self.examples.compute())}
        for name, metric in self.metrics.items():
            result = metric.compute()
            several = result if isinstance(result, dict) else {name: result}
            values |= {key: float(value) for key, value in several.items()}
            with metric.sync_context():
                counts |= dict.fromkeys(several, int(metric.count))
        return Scored(
            self.evaluation, split, values, counts | {"tokens": counts.get("loss", 0)}, self.seconds
        )


@contextlib.contextmanager
def drawing_from(place: int, device: torch.device) -> Iterator[None]:
    """Random numbers that depend on a position of a split alone; those of training continue unchanged."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(EVALUATION_SEED + place)
        yield
