"""Models of the next token over separate sequences (puzzles, pictures), scored under any number of hashings."""

import sys
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from repro.batches import Data, Evaluation, ExampleBatch, Examples, scored_places
from repro.errors import UserError
from repro.models.decoder_lm import DecoderLM
from repro.nn.attention.continuous import ContinuousMemory
from repro.nn.attention.hashed.hashing import Hashing
from repro.nn.mixer import MixerOutput
from repro.nn.settings import AS_BUILT, CallSettings, has_hashing
from repro.tasks.evaluated import Metrics, Scored
from repro.tasks.example_task import ExampleTask
from repro.tasks.metrics.errors import Accuracy
from repro.tasks.metrics.means import Likelihood
from repro.tasks.task import OptimizerMaker, ScheduleMaker, StepResult


class SequenceData(Data, Protocol):
    """The attributes of the datamodule that a sequence model uses."""

    seq_len: int

    def examples(self, split: str, indices: Any, epoch: int | None) -> Examples:
        """Some examples of a split, by their numbers ``(B,)``."""
        ...


class SequenceModel(ExampleTask[DecoderLM]):
    """Trains and scores a model of the next token of separate sequences.

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
        ValueError: hashings for a network without attention by hashing, or a segment below 1.
        UserError: when training or a test begins, a segment that is longer than the sequences, or a target that counts
            before the last segment.

    Source: Kitaev et al. 2020, table 2; Katharopoulos et al. 2020, section 4.1.1.
    """

    data: SequenceData  # the datamodule of the trainer
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
        if self.hashings and not has_hashing(net):
            raise ValueError(f"hashings {', '.join(self.hashings)}: no mixer of this network hashes")

    def setup(self, stage: str) -> None:
        """Refuses segments that do not fit the data; notes a continuous memory that is never used."""
        super().setup(stage)
        if self.data is None:
            return
        length = self.data.seq_len
        if self.segment is not None:
            require_scored_last(self.data.examples(self.data.split("test"), np.arange(1), None), self.segment)
        if stage == "fit" and self.trainer.is_global_zero:
            for note in unused_memories(self.module, length, self.segment or length):
                print(note, file=sys.stderr)

    def training_step(self, batch: ExampleBatch, batch_idx: int) -> StepResult:
        """Computes the loss of one micro-batch and its sums for the curves."""
        hidden, targets, aux = self.hidden(batch.examples)
        nll, sums = self.likelihood(hidden, targets)
        loss = self.with_auxiliary(self.share_of_step(nll, batch.step_targets), aux)
        return {"loss": loss, "sums": sums}

    def metrics(self, evaluation: Evaluation) -> Metrics:
        """Loss and accuracy over all targets that count."""
        return {"likelihood": Likelihood(), "accuracy": Accuracy(self.net.vocabulary.size)}

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
        settings = replace(settings, first_draw=self.first_draw)
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

    def _last_segment(self, ids: Tensor, segment: int, settings: CallSettings) -> tuple[MixerOutput, int]:
        """The network's output for the last segment of ids ``(B, T)``, and the segment's first position."""
        first = last_segment(ids.shape[1], segment)
        state = self.net.init_state(len(ids), settings=settings)
        with torch.no_grad():
            for begin in range(0, first, segment):
                state = self.net(ids[:, begin : begin + segment], state, None, settings).state
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
        """The number of examples and the hashing, as a point of a sweep over rounds (its name where it has none)."""
        protocol, evaluation = super().protocol(metric, scored), scored.evaluation
        if not evaluation.name:
            return protocol
        hashing = self.hashings[evaluation.name]
        name = replace(evaluation, name="").called(metric)
        return {
            **protocol,
            **hashing.describe(),
            "rounds": hashing.rounds or evaluation.name,
            "sweep": "rounds",
            "of": name,
        }


def last_segment(length: int, segment: int) -> int:
    """The first position of the last segment of a sequence."""
    return (length - 1) // segment * segment


def require_scored_last(examples: Examples, segment: int) -> None:
    """Refuses segments that do not fit sequences.

    Args:
        examples: some, on the host.
        segment: tokens of a segment.

    Raises:
        UserError: it is longer than the sequences, or a target counts before the last segment.
    """
    length = examples.targets.shape[1]
    if segment > length:
        raise UserError(
            f"segment {segment} is longer than the {length} tokens of a sequence; set model.segment to {length} or less"
        )
    least, first = int((examples.targets >= 0).nonzero()[:, 1].min()), last_segment(length, segment)
    if least < first:
        fits = next(size for size in range(segment + 1, length + 1) if last_segment(length, size) <= least)
        raise UserError(
            f"segment {segment}: the last one of {length} tokens begins with token {first}, but token {least} is "
            f"scored, too; set model.segment to {fits}"
        )


def unused_memories(net: nn.Module, length: int, segment: int) -> list[str]:
    """A line if a continuous memory of the network is empty to the end of a sequence.

    Args:
        net: the network.
        length: tokens of a sequence.
        segment: tokens of a segment.
    """
    first = last_segment(length, segment)
    for mixer in net.modules():
        if isinstance(mixer, ContinuousMemory):
            last = first + last_segment(length - first, mixer.block)
            if last < mixer.memory.mem_len:
                return [
                    f"a continuous memory is never used: its first block enters it behind {mixer.memory.mem_len} "
                    f"tokens, mem_len and block together; the last piece of {length} tokens begins behind {last}"
                ]
    return []


def nll_of(log_probs: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood of targets ``(N,)``, summed, of log-probabilities ``(N, V)``."""
    return -log_probs.gather(-1, targets[:, None]).sum()
