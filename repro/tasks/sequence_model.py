"""Models of the next token over separate sequences (puzzles, pictures), scored under any number of hashings."""

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from repro.batches import Evaluation, ExampleBatch, Examples, scored_places
from repro.nn.attention.hashing import Hashing
from repro.nn.mixer import Mixed
from repro.nn.settings import AS_BUILT, CallSettings, knows_hashing
from repro.tasks.evaluated import Metrics, Scored
from repro.tasks.example_task import ExampleTask
from repro.tasks.metrics.errors import Accuracy
from repro.tasks.metrics.means import Likelihood
from repro.tasks.networks import TokenNetwork
from repro.tasks.task import OptimizerMaker, ScheduleMaker, StepResult


class SequenceModel(ExampleTask[TokenNetwork]):
    """Trains and scores a model of what follows each token of a sequence that stands alone.

    Only the targets that count are scored, and only for them the vocabulary is asked.

    Args:
        net: a :class:`~repro.models.DecoderLM`.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        segment: a sequence is read in segments of so many tokens with carried memory, like a stream; only the last
            segment is scored and has a gradient, so that all targets that count must lie in it. None reads it whole.
        hashings: further ways in which attention of the trained model looks its keys up, by name:
            ``test/accuracy_<name>``. The weights stay the same.

    Raises:
        ValueError: hashings for a network without attention by hashing.

    Source: Kitaev et al. 2020, table 2; Katharopoulos et al. 2020, section 4.1.1.
    """

    UNITS: ClassVar[dict[str, str]] = {"loss": "nats per target", "accuracy": "percent"}

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        hashings: dict[str, Hashing] | None = None,
        segment: int | None = None,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        if segment is not None and segment < 1:
            raise ValueError(f"segment must be at least 1, not {segment}")
        self.segment = segment
        self.hashings = hashings or {}
        if self.hashings and not knows_hashing(net):
            raise ValueError(f"hashings {', '.join(self.hashings)}: no mixer of this network hashes")

    @property
    def vocabulary_size(self) -> int:
        """Symbols that the network knows."""
        return self.net.vocabulary.size

    def training_step(self, batch: ExampleBatch, batch_idx: int) -> StepResult:
        """One micro-batch."""
        hidden, targets, aux = self.hidden(batch.examples)
        nll, sums = self.likelihood(hidden, targets)
        loss = self.with_auxiliary(self.share_of_step(nll, batch.step_targets), aux)
        return {"loss": loss, "sums": sums}

    def metrics(self) -> Metrics:
        """Loss and accuracy over all targets that count."""
        return {"likelihood": Likelihood(), "accuracy": Accuracy(self.vocabulary_size)}

    def score_examples(self, examples: Examples, settings: CallSettings, metrics: Metrics) -> None:
        """Adds likelihoods, and which symbols were the likeliest."""
        hidden, targets, _ = self.hidden(examples, settings)
        log_probs = self.net.vocabulary.log_probs(hidden)
        metrics["likelihood"].update(nll_of(log_probs, targets), targets.numel())
        metrics["accuracy"].update(log_probs.argmax(-1), targets)

    def likelihood(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, dict[str, Tensor | int]]:
        """Negative log-likelihood of targets ``(N,)``, and sums that the curves of training divide by ``tokens``."""
        log_probs = self.net.vocabulary.log_probs(hidden)
        nll = nll_of(log_probs, targets)
        right = (log_probs.detach().argmax(-1) == targets).sum()
        sums: dict[str, Tensor | int] = {"loss": nll.detach().double(), "accuracy": 100.0 * right.double()}
        return nll, sums | {"tokens": targets.numel()}

    def hidden(
        self, examples: Examples, settings: CallSettings = AS_BUILT
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Hidden states ``(N, D)`` and targets ``(N,)`` of the places that count, and the auxiliary loss ``(B,)``."""
        if self.segment is None:
            mixed, first = self.net(examples.inputs, None, examples.lengths, settings), 0
        else:
            mixed, first = self._last_segment(examples.inputs, self.segment, settings)
        length, steps = examples.targets.shape[1], mixed.y.shape[1]
        places = examples.scored
        if places is not None and first:  # of the whole rows; here of their last segments
            places = places // length * steps + places % length - first
        targets = scored_places(examples.targets[:, first:].flatten(), places)
        return scored_places(mixed.y.flatten(0, -2), places), targets, mixed.aux

    def _last_segment(self, ids: Tensor, segment: int, settings: CallSettings) -> tuple[Mixed, int]:
        """What the network makes of the last segment of ids ``(B, T)``, and where that begins."""
        first = (ids.shape[1] - 1) // segment * segment
        state = self.net.init_state(len(ids), settings=settings)
        with torch.no_grad():
            for piece in ids[:, :first].split(segment, dim=1):
                state = self.net(piece, state, None, settings).state
        return self.net(ids[:, first:], state, None, settings), first

    # --- evaluation ---------------------------------------------------------------------------------------------

    def tests(self) -> list[Evaluation]:
        """Test and validation split as trained, then under each of the hashings."""
        names = ("", *self.hashings)
        return [Evaluation(kind, name) for name in names for kind in ("test", "val")]

    def settings(self, evaluation: Evaluation) -> CallSettings:
        """The hashing of its name."""
        return CallSettings(hashing=self.hashings[evaluation.name]) if evaluation.name else AS_BUILT

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


def nll_of(log_probs: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood of targets ``(N,)``, summed, of log-probabilities ``(N, V)``."""
    return -log_probs.gather(-1, targets[:, None]).sum()
