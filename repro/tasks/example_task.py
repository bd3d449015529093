"""What tasks over examples share: exact sums over whole splits, one after another, and what the record says of them."""

import contextlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from repro.record import Measurement
from repro.tasks.task import Task

EVALUATION_SEED = 2026  # of what a network draws while it is scored: hash functions


@dataclass(frozen=True)
class Evaluation:
    """One way in which a model is scored; its measurements are called ``<kind>/<metric>[_<name>]``.

    Args:
        kind: ``test``, ``val`` or ``train``.
        split: of the data.
        name: of a setting that differs from training's; empty where there is none.
        limit: only the first so many examples; None for all.
    """

    kind: str
    split: str
    name: str = ""
    limit: int | None = None

    def called(self, metric: str) -> str:
        """The name of a measurement."""
        return f"{self.kind}/{metric}" + (f"_{self.name}" if self.name else "")


class Scored(NamedTuple):
    """What an evaluation came to.

    Attributes:
        evaluation: which.
        sums: over all ranks, in the order of the task's ``SUMS``.
        examples: that were scored.
    """

    evaluation: Evaluation
    sums: dict[str, float]
    examples: int


class ExampleTask(Task):
    """Base of the tasks whose data are :class:`~repro.data.examples.ExampleData`.

    Subclasses say what they sum up (``SUMS``, :meth:`score`), what follows from it (:meth:`summary`, ``UNITS``), and in
    which ways they are scored (:meth:`evaluations`). Sums are float64 and go over all ranks; that every example was
    scored once is checked. What a network draws while it is scored depends on the examples of a batch alone, so on the
    size of evaluation batches and on the number of ranks, which share the examples out.

    Attributes:
        tested: what the last test came to.
    """

    SUMS: ClassVar[tuple[str, ...]]
    UNITS: ClassVar[dict[str, str]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tested: list[Scored] = []
        self._evaluations: list[Evaluation] = []  # under way
        self._sums: Tensor | None = None  # of each of them, `SUMS` and the number of examples

    @abstractmethod
    def score(self, examples: Any) -> list[Tensor]:
        """Sums over some :class:`~repro.data.examples.Examples`, in the order of ``SUMS``."""

    @abstractmethod
    def summary(self, sums: dict[str, float]) -> dict[str, float]:
        """Every metric of an evaluation."""

    def evaluations(self) -> list[Evaluation]:
        """What a test consists of; the validation split follows the test split it belongs to."""
        return [Evaluation("test", self.data.test_split), Evaluation("val", self.data.val_split)]

    def scored_as(self, evaluation: Evaluation) -> contextlib.AbstractContextManager[Any]:
        """Under which the network is scored; by default as it is."""
        return contextlib.nullcontext()

    def loader(self, evaluation: Evaluation) -> Any:
        """This rank's share of an evaluation."""
        return self.data.eval_loader(evaluation.split, evaluation.limit)

    def expected(self, evaluation: Evaluation) -> int:
        """Examples of an evaluation over all ranks."""
        return int(self.data.expected(evaluation.split, evaluation.limit))

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """What decides how a metric of an evaluation was measured, for the record."""
        return {"examples": scored.examples}

    def counted(self, metric: str, scored: Scored) -> int:
        """Over how many items a metric goes."""
        return scored.examples

    @property
    def data(self) -> Any:
        """The datamodule of the trainer."""
        return self.trainer.datamodule  # type: ignore[attr-defined]

    # --- validation and test ------------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        self._begin([Evaluation("val", self.data.val_split)])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._add(batch, 0)

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            self._log(self._end()[0])

    def test_batches(self) -> list[Any]:
        """A loader for each evaluation of the test."""
        return [self.loader(evaluation) for evaluation in self.evaluations()]

    def on_test_epoch_start(self) -> None:
        self._begin(self.evaluations())

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._add(batch, dataloader_idx)

    def on_test_epoch_end(self) -> None:
        self.tested = self._end()
        self._log(self.tested[0])

    def _begin(self, evaluations: list[Evaluation]) -> None:
        self._evaluations = evaluations
        sizes = len(evaluations), len(self.SUMS) + 1
        self._sums = torch.zeros(sizes, dtype=torch.float64, device=self.device)

    @torch.no_grad()
    def _add(self, batch: Any, which: int) -> None:
        """Adds a batch to the sums of an evaluation."""
        assert self._sums is not None
        rows = len(batch.index)
        if not rows:  # a rank without examples of its own
            return
        with self.scored_as(self._evaluations[which]), drawing_from(int(batch.index[0]), self.device):
            found = self.score(batch.examples)
        self._sums[which] += torch.stack([*(one.double() for one in found), self._sums.new_tensor(rows)])

    def _end(self) -> list[Scored]:
        """Adds up over ranks, and checks that every example was scored once."""
        assert self._sums is not None
        table = self.sum_over_ranks(self._sums).tolist()
        self._sums = None
        found = []
        for evaluation, (*sums, examples) in zip(self._evaluations, table, strict=True):
            if examples != self.expected(evaluation):
                raise RuntimeError(
                    f"{evaluation.split}: {examples:.0f} examples scored, there are {self.expected(evaluation)}"
                )
            found.append(Scored(evaluation, dict(zip(self.SUMS, sums, strict=True)), round(examples)))
        return found

    def _log(self, scored: Scored) -> None:
        kind = scored.evaluation.kind
        self.log_dict({f"{kind}/{name}": value for name, value in self.summary(scored.sums).items()})

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Every metric of every evaluation; a test score has the validation score of its setting beside it.

        Validation scores of further settings stand there only.
        """
        beside = {
            one.evaluation.name: self.summary(one.sums) for one in self.tested if one.evaluation.kind == "val"
        }
        found = []
        for one in self.tested:
            evaluation = one.evaluation
            if evaluation.kind == "val" and evaluation.name:
                continue
            validation = beside.get(evaluation.name, {}) if evaluation.kind == "test" else {}
            for metric, value in self.summary(one.sums).items():
                found.append(
                    Measurement(
                        evaluation.called(metric), value, self.UNITS[metric], evaluation.split,
                        self.protocol(metric, one), self.counted(metric, one), validation.get(metric),
                    )
                )  # fmt: skip
        return found


@contextlib.contextmanager
def drawing_from(place: int, device: torch.device) -> Any:
    """Random numbers that depend on a place of a split alone; those of training go on as if nothing was drawn."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(EVALUATION_SEED + place)
        yield
