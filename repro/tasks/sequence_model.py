"""Models of the next token over separate sequences (puzzles, pictures), scored under any number of hashings."""

import contextlib
from dataclasses import replace
from typing import Any, ClassVar

import torch
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor, nn

from repro.nn.attention.hashing import Hashing, hashing_as
from repro.tasks.example_task import Evaluation, ExampleTask, Scored
from repro.tasks.task import OptimizerMaker, ScheduleMaker


class SequenceModel(ExampleTask):
    """Trains and scores a model of what follows each token of a sequence that stands alone.

    Only the targets that count are scored, and only for them the vocabulary is asked.

    Args:
        net: a :class:`~repro.models.DecoderLM`.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        hashings: further ways in which attention of the trained model looks its keys up, by name:
            ``test/accuracy_<name>``. The weights stay the same.

    Raises:
        ValueError: hashings for a network without attention by hashing.

    Source: Kitaev et al. 2020, table 2; Katharopoulos et al. 2020, section 4.1.1.
    """

    SUMS: ClassVar[tuple[str, ...]] = ("nll", "right", "targets")
    UNITS: ClassVar[dict[str, str]] = {"loss": "nats per target", "accuracy": "percent"}

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        hashings: dict[str, Hashing] | None = None,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        self.hashings = hashings or {}
        for hashing in self.hashings.values():
            with hashing_as(net, hashing):
                pass

    def training_step(self, batch: Any, batch_idx: int) -> STEP_OUTPUT:
        """One micro-batch of :class:`~repro.data.examples.ExampleBatch`."""
        sums = dict(zip(self.SUMS, self.score(batch.examples), strict=True))
        loss = self.share_of_step(sums["nll"], batch.step_targets)
        return {"loss": loss, "sums": self.curve({name: value.detach() for name, value in sums.items()})}

    def score(self, examples: Any) -> list[Tensor]:
        """Likelihood, targets that were the likeliest, and how many there are."""
        hidden, targets = self.hidden(examples)
        logits = self.net.vocabulary.log_probs(hidden)
        nll = -logits.gather(-1, targets[:, None]).sum()
        right = (logits.detach().argmax(-1) == targets).sum()
        return [nll, right, torch.tensor(targets.numel(), device=nll.device)]

    def hidden(self, examples: Any) -> tuple[Tensor, Tensor]:
        """Hidden states ``(N, D)`` and targets ``(N,)`` of the places that count."""
        hidden = self.net(examples.inputs, None, examples.lengths).y
        counts = examples.targets >= 0
        return hidden[counts], examples.targets[counts]

    def curve(self, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sums of a micro-batch that the curves of training divide by ``tokens``."""
        return {
            "loss": sums["nll"].double(),
            "accuracy": 100.0 * sums["right"].double(),
            "tokens": sums["targets"],
        }

    # --- evaluation ---------------------------------------------------------------------------------------------

    def evaluations(self) -> list[Evaluation]:
        """Test and validation split as trained, then under each of the hashings."""
        splits = (("test", self.data.test_split), ("val", self.data.val_split))
        return [Evaluation(kind, split, name) for name in ("", *self.hashings) for kind, split in splits]

    def scored_as(self, evaluation: Evaluation) -> contextlib.AbstractContextManager[Any]:
        """Under the hashing of its name."""
        if not evaluation.name:
            return super().scored_as(evaluation)
        return hashing_as(self.net, self.hashings[evaluation.name])

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """How many examples; the hashing, as a point of a sweep over rounds, with its name where there are none."""
        said, evaluation = super().protocol(metric, scored), scored.evaluation
        if not evaluation.name:
            return said
        hashing = self.hashings[evaluation.name]
        of = replace(evaluation, name="").called(metric)
        return {
            **said,
            **hashing.said(),
            "rounds": hashing.rounds or evaluation.name,
            "sweep": "rounds",
            "of": of,
        }

    def summary(self, sums: dict[str, float]) -> dict[str, float]:
        """Loss and accuracy over all targets that count."""
        return {"loss": sums["nll"] / sums["targets"], "accuracy": 100.0 * sums["right"] / sums["targets"]}

    def counted(self, metric: str, scored: Scored) -> int:
        """Targets that count."""
        return round(scored.sums["targets"])
