"""Scoring a model on whole splits: exact sums over all ranks, and what the record says of them."""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from repro.batches import Batch, Evaluation
from repro.record import Measurement
from repro.tasks.task import Net, OptimizerMaker, ScheduleMaker, Task


class Scored(NamedTuple):
    """What an evaluation came to.

    Attributes:
        evaluation: which.
        split: its name.
        sums: over all ranks, by the names of the task's ``SUMS``, and ``examples``: the rows that were scored.
        seconds: that it took on this rank; 0 where that does not matter.
    """

    evaluation: Evaluation
    split: str
    sums: dict[str, float]
    seconds: float = 0.0


class EvaluatedTask(Task[Net]):
    """Base of the tasks that score a model on splits, one evaluation after another.

    Subclasses say what they sum up (``SUMS``, :meth:`score`) and what follows from it (:meth:`summary`, ``UNITS``).
    Sums are float64 and go over all ranks; that everything was scored once is checked against what the data expect.

    Attributes:
        tested: what the last test came to, in the order of :meth:`tests`.
    """

    SUMS: ClassVar[tuple[str, ...]]
    UNITS: ClassVar[dict[str, str]] = {}

    def __init__(self, net: nn.Module, optimizer: OptimizerMaker, schedule: ScheduleMaker) -> None:
        super().__init__(net, optimizer, schedule)
        self.tested: list[Scored] = []
        self._evaluations: list[Evaluation] = []  # under way
        self._sums = torch.zeros(0)  # of each of them, `SUMS` and the number of rows
        self._seconds: list[float] = []
        self._current = (-1, 0.0)  # which is under way, and since when

    @abstractmethod
    def score(self, batch: Any, evaluation: Evaluation) -> list[Tensor]:
        """Sums over a batch that has rows, in the order of ``SUMS``."""

    @abstractmethod
    def summary(self, scored: Scored) -> dict[str, float]:
        """Every metric of an evaluation."""

    def complete(self, scored: Scored) -> None:
        """Called on every rank when the sums of an evaluation are known, before they are logged."""

    def reported(self, evaluation: Evaluation) -> bool:
        """Whether an evaluation has measurements of its own, not only beside those of a test."""
        return True

    def unit(self, metric: str) -> str:
        """The unit of a metric, for people."""
        return self.UNITS[metric]

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """What decides how a metric of an evaluation was measured, for the record."""
        return {"examples": round(scored.sums["examples"])}

    def counted(self, metric: str, scored: Scored) -> int:
        """Over how many items a metric goes."""
        return round(scored.sums["examples"])

    # --- validation and test ------------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        self._begin([self.validation()])

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._add(batch, 0)

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            self._log(self._end()[0])

    def on_test_epoch_start(self) -> None:
        self._begin(list(self.tests()))

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._add(batch, dataloader_idx)

    def on_test_epoch_end(self) -> None:
        self.tested = self._end()
        self._log(self.tested[0])

    def _begin(self, evaluations: list[Evaluation]) -> None:
        self._evaluations = evaluations
        sizes = len(evaluations), len(self.SUMS) + 1
        self._sums = torch.zeros(sizes, dtype=torch.float64, device=self.device)
        self._seconds = [0.0] * len(evaluations)
        self._current = (-1, 0.0)

    @torch.no_grad()
    def _add(self, batch: Batch, which: int) -> None:
        """Adds a batch to the sums of an evaluation."""
        if which != self._current[0]:
            self._turn_to(which)
        rows = len(batch.indices)
        if not rows:  # a rank without work of its own
            return
        found = self.score(batch, self._evaluations[which])
        self._sums[which] += torch.stack([*(one.double() for one in found), self._sums.new_full((), rows)])

    def _turn_to(self, which: int) -> None:
        """Stops the clock of the evaluation under way, and starts that of another."""
        (before, since), now = self._current, self.now()
        if before >= 0:
            self._seconds[before] = now - since
        self._current = (which, now)

    def _end(self) -> list[Scored]:
        """Adds up over ranks, and checks that everything was scored once."""
        self._turn_to(-1)
        table = self.sum_over_ranks(self._sums).tolist()
        found = []
        for evaluation, sums, seconds in zip(self._evaluations, table, self._seconds, strict=True):
            split = self.data.split(evaluation.kind)
            scored = Scored(
                evaluation, split, dict(zip((*self.SUMS, "examples"), sums, strict=True)), seconds
            )
            for what, expected in self.data.expected(evaluation).items():
                if scored.sums[what] != expected:
                    raise RuntimeError(
                        f"{split}: {scored.sums[what]:.0f} {what} scored, there are {expected}"
                    )
            self.complete(scored)
            found.append(scored)
        return found

    def _log(self, scored: Scored) -> None:
        """Shows what an evaluation came to; not how fast, which a resumed run would not repeat."""
        summary = self.summary(scored._replace(seconds=0.0))
        self.log_dict({f"{scored.evaluation.kind}/{name}": value for name, value in summary.items()})

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Every metric of every evaluation; a test score has the validation score of its setting beside it."""
        beside = {
            one.evaluation.name: self.summary(one) for one in self.tested if one.evaluation.kind == "val"
        }
        found = []
        for one in self.tested:
            if not self.reported(one.evaluation):
                continue
            validation = beside.get(one.evaluation.name, {}) if one.evaluation.kind == "test" else {}
            for metric, value in self.summary(one).items():
                found.append(
                    Measurement(
                        one.evaluation.called(metric), value, self.unit(metric), one.split,
                        self.protocol(metric, one), self.counted(metric, one), validation.get(metric),
                    )
                )  # fmt: skip
        return [*found, *super().measurements()]
