"""Classification of sequences: exact accuracies over whole splits, and those of a paper's small random samples."""

from dataclasses import asdict
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from repro.batches import Data, Evaluation, ExampleBatch, Examples, FirstExamples, RandomBatches
from repro.models.classifier import Classifier
from repro.nn.positions.positions import idle_parameters
from repro.nn.settings import CallSettings
from repro.record import Measurement
from repro.tasks.curves import curves_of
from repro.tasks.evaluated import Metrics, Scored
from repro.tasks.example_task import ExampleTask
from repro.tasks.metrics.errors import Accuracy
from repro.tasks.metrics.means import Likelihood, Mean
from repro.tasks.task import OptimizerMaker, ScheduleMaker, StepResult

SAMPLED = "sampled"
CONVERGED_WITHIN = 1.0  # points of accuracy


class ClassData(Data, Protocol):
    """The attributes of the datamodule that classification uses."""

    seq_len: int
    n_classes: int


class Classification(ExampleTask[Classifier]):
    """Trains a classifier by cross-entropy, and scores it on whole splits.

    Args:
        net: a :class:`~repro.models.Classifier`.
        optimizer: maker of the optimiser; it is given the parameters that are not frozen.
        schedule: maker of the schedule.
        sampled: a further evaluation of the test split, ``test/accuracy_sampled``.
        train_limit: number of first training examples that are also scored, ``train/accuracy``.

    Raises:
        ValueError: a ``train_limit`` below 0.
    """

    data: ClassData  # the datamodule of the trainer
    UNITS: ClassVar[dict[str, str]] = {
        "loss": "nats per target", "accuracy": "percent", "accuracy_hidden": "percent",
    }  # fmt: skip

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        sampled: RandomBatches | None = None,
        train_limit: int | None = None,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        if train_limit is not None and train_limit < 0:
            raise ValueError(f"train_limit must be at least 0, not {train_limit}")
        self.sampled = sampled
        self.train_limit = train_limit

    def training_step(self, batch: ExampleBatch, batch_idx: int) -> StepResult:
        """Computes the loss of one micro-batch and its sums for the curves."""
        targets = batch.examples.targets
        logits = self._logits(batch.examples)
        nll = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        right = 100.0 * (logits.detach().argmax(-1) == targets).sum().double()
        sums: dict[str, Tensor | int] = {"loss": nll.detach(), "accuracy": right, "tokens": targets.numel()}
        return {"loss": self.share_of_step(nll, batch.step_targets), "sums": sums}

    def _logits(self, examples: Examples) -> Tensor:
        """``(B, N, classes)`` in float32 or better."""
        logits = self.net(examples.inputs, examples.lengths)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    # --- evaluation ---------------------------------------------------------------------------------------------

    def tests(self) -> list[Evaluation]:
        """Test and validation split, and further evaluations of the settings."""
        evaluations = list(super().tests())
        if self.train_limit is not None:
            evaluations.append(Evaluation("train", selection=FirstExamples(self.train_limit)))
        if self.sampled is not None:
            evaluations.append(Evaluation("test", SAMPLED, self.sampled))
        return evaluations

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """The number of examples, or the sample."""
        selection = scored.evaluation.selection
        return asdict(selection) if isinstance(selection, RandomBatches) else super().protocol(metric, scored)

    def metrics(self, evaluation: Evaluation) -> Metrics:
        """Loss and accuracy; that of targets which the input does not show apart."""
        return {
            "likelihood": Likelihood(),
            "accuracy": Accuracy(self.data.n_classes),
            "accuracy_hidden": Mean(),
        }

    def score_examples(self, examples: Examples, settings: CallSettings, metrics: Metrics) -> None:
        """Adds likelihoods and predicted classes."""
        logits, targets = self._logits(examples), examples.targets
        nll = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").double().sum()
        metrics["likelihood"].update(nll, targets.numel())
        classes = logits.argmax(-1)
        metrics["accuracy"].update(classes, targets)
        if examples.hidden is not None:
            right = (classes == targets) & examples.hidden
            metrics["accuracy_hidden"].update(100.0 * right.sum(), examples.hidden.sum())

    def summary(self, scored: Scored) -> dict[str, float]:
        """Loss, and the accuracies for which there are targets."""
        return {name: value for name, value in scored.values.items() if scored.counts[name]}

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Every metric of every evaluation, when the run converged, and how many parameters were trained."""
        return [*super().measurements(), *self._convergence(), *self._sizes()]

    def _convergence(self) -> list[Measurement]:
        """The first validated step whose accuracy comes near the best one."""
        curves = curves_of(self.trainer)
        points = curves.curves.get("val/accuracy", []) if curves else []
        if not points:
            return []
        best = max(value for _, value in points)
        step = next(step for step, value in points if value >= best - CONVERGED_WITHIN)
        protocol = {"within": CONVERGED_WITHIN, "of": "the best validated accuracy", "best": best}
        return [Measurement("val/converged_at", step, "gradient steps", self.data.split("val"), protocol)]

    def _sizes(self) -> list[Measurement]:
        """Trained parameters, and those that inputs reach: all but positions beyond the longest input."""
        trained = sum(p.numel() for p in self.parameters() if p.requires_grad)
        counts = {"trained": trained, "reached": trained - idle_parameters(self, self.data.seq_len)}
        split = self.data.split("train")
        return [Measurement(f"parameters/{name}", n, "parameters", split) for name, n in counts.items()]
