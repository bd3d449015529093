"""Transcription of recordings: CTC loss, and phoneme error rates over whole splits."""

import statistics
from typing import ClassVar, Protocol

from torch import Tensor

from repro.batches import Data, Evaluation, ExampleBatch, Examples
from repro.models.transcriber import Transcriber
from repro.nn.settings import CallSettings
from repro.record import Measurement
from repro.tasks.curves import curves_of
from repro.tasks.evaluated import Metrics
from repro.tasks.example_task import ExampleTask
from repro.tasks.metrics.errors import SymbolErrorRate
from repro.tasks.metrics.means import Likelihood
from repro.tasks.task import StepResult


class TranscriptData(Data, Protocol):
    """The attributes of the datamodule that transcription uses."""

    @property
    def symbols(self) -> list[str]:
        """Name of each class; class 0 is CTC's blank."""
        ...

    @property
    def steps_per_epoch(self) -> int:
        """Updates of an epoch."""
        ...


class Transcription(ExampleTask[Transcriber]):
    """Trains a transcriber by connectionist temporal classification, and counts its errors.

    The phoneme error rate is the number of insertions, deletions and substitutions that turn the likeliest class of
    each frame, repeats and blanks taken out, into the reference, per reference phoneme of the whole split, in percent.

    Args:
        net: a :class:`~repro.models.Transcriber`.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.

    Source: Katharopoulos et al. 2020, section 4.3, table 3.
    Deviation: no beam search and no language model; the paper does not state how it decodes.
    """

    data: TranscriptData  # the datamodule of the trainer
    UNITS: ClassVar[dict[str, str]] = {"loss": "nats per phoneme", "per": "percent"}
    COLUMNS = ("reference", "hypothesis")
    _decoded: list[list[int]]  # of the batch just scored

    def training_step(self, batch: ExampleBatch, batch_idx: int) -> StepResult:
        """Computes the loss of one micro-batch and its sums for the curves."""
        inputs, targets, _, lengths, _ = batch.examples
        assert lengths is not None
        nll = self.net.head.nll(self.net(inputs, lengths), lengths, targets).sum()
        sums: dict[str, Tensor | int] = {"loss": nll.detach(), "tokens": (targets >= 0).sum()}
        return {"loss": self.share_of_step(nll, batch.step_targets), "sums": sums}

    # --- evaluation ---------------------------------------------------------------------------------------------

    def metrics(self, evaluation: Evaluation) -> Metrics:
        """Loss and phoneme error rate."""
        return {"likelihood": Likelihood(), "per": SymbolErrorRate()}

    def score_examples(self, examples: Examples, settings: CallSettings, metrics: Metrics) -> None:
        """Adds likelihoods and what was heard."""
        assert examples.lengths is not None
        hidden = self.net(examples.inputs, examples.lengths)
        nll = self.net.head.nll(hidden, examples.lengths, examples.targets).double().sum()
        metrics["likelihood"].update(nll, (examples.targets >= 0).sum())
        self._decoded = self.net.head.decode(hidden, examples.lengths)
        metrics["per"].update(*map(spaced, (self._decoded, references(examples.targets))))

    def score(self, batch: ExampleBatch, evaluation: Evaluation, metrics: Metrics) -> None:
        """Updates the metrics with a batch; keeps what was heard in recordings of the test, if these are public."""
        super().score(batch, evaluation, metrics)
        if evaluation.kind == "test" and self.data.public:
            said = references(batch.examples.targets)
            for index, *pair in zip(batch.indices.tolist(), said, self._decoded, strict=True):
                self._rows[index] = tuple(map(self._spelt, pair))

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Every metric of every evaluation, and how long an epoch of training takes."""
        return [*super().measurements(), *self._pace()]

    def _pace(self) -> list[Measurement]:
        """Seconds of training for as many targets as an epoch has; evaluation, checkpoints and pauses are not in it."""
        curves = curves_of(self.trainer)
        rates = [value for _, value in curves.curves.get("train/tokens_per_s", [])] if curves else []
        if curves is None or not rates:
            return []
        steps = self.data.steps_per_epoch
        # `global_step` is 0 where a run was resumed behind its last step
        targets = curves.tokens / self.trainer.max_steps * steps
        protocol = {"of": "training alone, at the median speed of its curve", "steps": steps}
        seconds = targets / statistics.median(rates)
        return [Measurement("train/seconds_per_epoch", seconds, "s", self.data.split("train"), protocol)]

    def _spelt(self, ids: list[int]) -> str:
        symbols = self.data.symbols
        return " ".join(symbols[i] for i in ids)


def references(targets: Tensor) -> list[list[int]]:
    """The targets of each row of ``(B, N)``, without the -1 behind them."""
    return [row[row >= 0].tolist() for row in targets.cpu()]


def spaced(rows: list[list[int]]) -> list[str]:
    """Each row of ids as a text, ids between spaces."""
    return [" ".join(map(str, row)) for row in rows]
