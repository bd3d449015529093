"""Classification of sequences: exact accuracies over whole splits, and a paper's small random samples beside them."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from repro.nn.positions import idle_parameters
from repro.record import Measurement
from repro.tasks.callbacks import Curves
from repro.tasks.example_task import Evaluation, ExampleTask, Scored
from repro.tasks.task import OptimizerMaker, ScheduleMaker

SAMPLED = "sampled"
CONVERGED_WITHIN = 1.0  # points of accuracy


@dataclass(frozen=True)
class Sampled:
    """An evaluation on some random batches, as a published one may be: noisy, for comparison only.

    Args:
        batches: how many.
        rows: examples of each.

    Raises:
        ValueError: a number below 1.
    """

    batches: int
    rows: int

    def __post_init__(self) -> None:
        if self.batches < 1 or self.rows < 1:
            raise ValueError(f"batches {self.batches} and rows {self.rows} must be at least 1")


class Classification(ExampleTask):
    """Trains a classifier by cross-entropy, and scores it on whole splits.

    Args:
        net: a :class:`~repro.models.Classifier`.
        optimizer: maker of the optimiser; it is given the parameters that are not frozen.
        schedule: maker of the schedule.
        sampled: a further evaluation of the test split, ``test/accuracy_sampled``.
        train_limit: score the first so many examples of the training split as well, ``train/accuracy``.
    """

    SUMS = ("nll", "right", "right_hidden", "hidden", "targets")
    UNITS: ClassVar[dict[str, str]] = {
        "loss": "nats per target", "accuracy": "percent", "accuracy_hidden": "percent",
    }  # fmt: skip

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        sampled: Sampled | None = None,
        train_limit: int | None = None,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        self.sampled = sampled
        self.train_limit = train_limit

    def training_step(self, batch: Any, batch_idx: int) -> STEP_OUTPUT:
        """One micro-batch of :class:`~repro.data.examples.ExampleBatch`."""
        targets = batch.examples.targets
        logits = self._logits(batch.examples)
        nll = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        right = 100.0 * (logits.detach().argmax(-1) == targets).sum().double()
        count = torch.tensor(targets.numel(), device=nll.device)
        sums = {"loss": nll.detach().double(), "accuracy": right, "tokens": count}
        return {"loss": self.share_of_step(nll, batch.step_targets), "sums": sums}

    def _logits(self, examples: Any) -> Tensor:
        """``(B, N, classes)`` in float32 or better."""
        logits = self.net(examples.inputs, examples.lengths)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    # --- evaluation ---------------------------------------------------------------------------------------------

    def evaluations(self) -> list[Evaluation]:
        """Test and validation split, and what else was asked for."""
        found = super().evaluations()
        if self.train_limit is not None:
            found.append(Evaluation("train", self.data.train_split, limit=self.train_limit))
        if self.sampled is not None:
            found.append(Evaluation("test", self.data.test_split, SAMPLED))
        return found

    def loader(self, evaluation: Evaluation) -> Any:
        """As for every task; random batches where it is the sample."""
        if evaluation.name == SAMPLED and self.sampled is not None:
            return self.data.sampled_loader(evaluation.split, self.sampled.batches, self.sampled.rows)
        return super().loader(evaluation)

    def expected(self, evaluation: Evaluation) -> int:
        """Examples of an evaluation over all ranks."""
        if evaluation.name == SAMPLED and self.sampled is not None:
            return self.sampled.batches * self.sampled.rows
        return super().expected(evaluation)

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """How many examples, or which sample."""
        if scored.evaluation.name == SAMPLED and self.sampled is not None:
            return asdict(self.sampled)
        return super().protocol(metric, scored)

    def score(self, examples: Any) -> list[Tensor]:
        """Likelihood and right answers, those that the input does not show apart."""
        logits, targets = self._logits(examples), examples.targets
        nll = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").double().sum()
        right = logits.argmax(-1) == targets
        hidden = torch.zeros_like(right) if examples.hidden is None else examples.hidden
        return [nll, right.sum(), (right & hidden).sum(), hidden.sum(), nll.new_tensor(targets.numel())]

    def summary(self, sums: dict[str, float]) -> dict[str, float]:
        """Loss and accuracies."""
        found = {"loss": sums["nll"] / sums["targets"], "accuracy": 100.0 * sums["right"] / sums["targets"]}
        if sums["hidden"]:
            found["accuracy_hidden"] = 100.0 * sums["right_hidden"] / sums["hidden"]
        return found

    def counted(self, metric: str, scored: Scored) -> int:
        """Targets, or those that the input does not show."""
        return round(scored.sums["hidden" if metric == "accuracy_hidden" else "targets"])

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Every metric of every evaluation, when the run converged, and how many parameters were trained."""
        return [*super().measurements(), *self._convergence(), *self._sizes()]

    def _convergence(self) -> list[Measurement]:
        """The first validated step whose accuracy comes near the best one."""
        curves = next((c.curves for c in self.trainer.callbacks if isinstance(c, Curves)), {})  # type: ignore[attr-defined]
        points = curves.get("val/accuracy", [])
        if not points:
            return []
        best = max(value for _, value in points)
        step = next(step for step, value in points if value >= best - CONVERGED_WITHIN)
        protocol = {"within": CONVERGED_WITHIN, "of": "the best validated accuracy", "best": best}
        return [Measurement("val/converged_at", step, "gradient steps", self.data.val_split, protocol)]

    def _sizes(self) -> list[Measurement]:
        """How many parameters are trained, and how many of them inputs reach: all but positions behind their end."""
        trained = sum(p.numel() for p in self.parameters() if p.requires_grad)
        found = {"trained": trained, "reached": trained - idle_parameters(self, self.data.seq_len)}
        split = self.data.train_split
        return [Measurement(f"parameters/{name}", n, "parameters", split) for name, n in found.items()]
