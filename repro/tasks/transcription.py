"""Transcription of recordings: CTC loss, and phoneme error rates over whole splits."""

import statistics
from typing import ClassVar, Protocol

from torch import Tensor, nn

from repro.batches import Data, Evaluation, ExampleBatch, Examples
from repro.models.transcriber import Transcriber
from repro.nn.settings import CallSettings
from repro.record import Measurement
from repro.tasks.curves import curves_of
from repro.tasks.evaluated import Metrics
from repro.tasks.example_task import ExampleTask
from repro.tasks.metrics.errors import SymbolErrorRate
from repro.tasks.metrics.means import Likelihood
from repro.tasks.ranks import gather_objects
from repro.tasks.task import OptimizerMaker, ScheduleMaker, StepResult


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

    def __init__(self, net: nn.Module, optimizer: OptimizerMaker, schedule: ScheduleMaker) -> None:
        super().__init__(net, optimizer, schedule)
        self.transcripts: list[
            tuple[list[int], list[int]]
        ] = []  # of the test split: hypotheses and references
        self._decoded: list[list[int]] = []  # of the batch just scored
        self._gathered: dict[int, tuple[list[int], list[int]]] = {}

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
        """Updates the metrics with a batch; keeps what was heard in recordings of the test."""
        super().score(batch, evaluation, metrics)
        if evaluation.kind == "test":
            pairs = zip(self._decoded, references(batch.examples.targets), strict=True)
            self._gathered.update(zip(batch.indices.tolist(), pairs, strict=True))

    def on_test_epoch_start(self) -> None:
        super().on_test_epoch_start()
        self._gathered = {}

    def on_test_epoch_end(self) -> None:
        super().on_test_epoch_end()
        pairs = {index: pair for part in gather_objects(self._gathered) for index, pair in part.items()}
        self.transcripts = [pairs[index] for index in sorted(pairs)]

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

    def samples(self, count: int = 20) -> tuple[list[str], list[list[str]]]:
        """References and hypotheses of the first recordings of the test split; none if the data are not public."""
        if not self.data.public:
            return [], []
        return ["reference", "hypothesis"], [
            [self._spelt(reference), self._spelt(hypothesis)]
            for hypothesis, reference in self.transcripts[:count]
        ]

    def outputs(self) -> str | None:
        """The hypothesis for each recording of the test split, one a line; None if the data are not public."""
        if not self.data.public:
            return None
        return "".join(f"{self._spelt(phonemes)}\n" for phonemes, _ in self.transcripts)

    def _spelt(self, ids: list[int]) -> str:
        symbols = self.data.symbols
        return " ".join(symbols[i] for i in ids)


def references(targets: Tensor) -> list[list[int]]:
    """The targets of each row of ``(B, N)``, without the -1 behind them."""
    return [row[row >= 0].tolist() for row in targets.cpu()]


def spaced(rows: list[list[int]]) -> list[str]:
    """Each row of ids as a text, ids between spaces."""
    return [" ".join(map(str, row)) for row in rows]
