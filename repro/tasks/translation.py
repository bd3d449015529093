"""Translation: label-smoothed training, exact likelihoods, beam search and BLEU."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from repro.batches import Data, Evaluation, Kind, PairBatch, Tokenizer
from repro.errors import UserError
from repro.models.encoder_decoder import EncoderDecoder
from repro.models.generate import Hypotheses, translate
from repro.models.search import LengthForm, check_search
from repro.nn.positions.positions import longest_window
from repro.nn.vocabularies.heads import PaddedScores, TokenScores
from repro.record import Measurement
from repro.tasks.evaluated import EvaluatedTask, Metrics, Scored
from repro.tasks.lightning_private import datamodule_of
from repro.tasks.metrics.bleu import WAYS
from repro.tasks.metrics.divergence import diverged, failed
from repro.tasks.metrics.sentences import SentenceScores, TranslationScores, one_line
from repro.tasks.ranks import gather_rows
from repro.tasks.task import OptimizerMaker, ScheduleMaker, StepResult

GREEDY = "greedy"  # the search during training
LIKELIHOODS = ("nll", "ppl", "loss")
UNITS = {
    **dict.fromkeys(WAYS, "BLEU"),
    "exact_match": "percent of sentences",
    "nll": "nats per subword",
    "ppl": "perplexity per subword",
    "loss": "nats per subword",
}


class Search(NamedTuple):
    """Settings of the search for hypotheses.

    Attributes:
        beam: hypotheses kept; 1 without a penalty is greedy.
        length_penalty: α of the length penalty.
        max_extra: an output has at most ``max_ratio`` times the tokens of its source and these, end symbols counted.
        length_form: ``vaswani``: ``((5 + length) / 6)^α``; ``power``, fairseq's: ``length^α``.
        min_length: tokens that must come before the end symbol.
        max_ratio: see max_extra.
        n_best: hypotheses of each source that are returned, 1 to beam.
    """

    beam: int
    length_penalty: float
    max_extra: int
    length_form: LengthForm = "vaswani"
    min_length: int = 0
    max_ratio: float = 1.0
    n_best: int = 1

    @property
    def protocol(self) -> dict[str, Any]:
        """The settings for a record; one with a default only where it differs, as older records lack it."""
        usual = self._field_defaults
        return {name: value for name, value in self._asdict().items() if value != usual.get(name)}


class PairData(Data, Protocol):
    """The attributes of the datamodule that translation uses."""

    target_language: str

    @property
    def tokenizer(self) -> Tokenizer: ...

    def sources(self, split: str) -> list[str]:
        """Raw source lines of a split."""
        ...

    def references(self, split: str) -> list[str]:
        """Raw target lines of a split."""
        ...

    def longest(self, split: str) -> int:
        """Tokens of the longest sentence of a split, eos counted."""
        ...


class Translation(EvaluatedTask[EncoderDecoder]):
    """Trains and scores an encoder-decoder on sentence pairs.

    Args:
        net: an :class:`~repro.models.EncoderDecoder`.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        label_smoothing: ε in [0, 1); reported likelihoods are without it.
        smoothing_over_all: every token has ``ε / V`` of it, the target included; else each other one ``ε / (V - 1)``.
        divergence: the smoothed loss is a Kullback-Leibler divergence in which padding has no share of ε
            (:class:`~repro.nn.PaddedScores`); else a cross-entropy over all tokens.
        beam: hypotheses kept in the test; validation during training is greedy.
        length_penalty, max_extra, length_form, min_length, max_ratio: of the search; see :class:`Search`.

    Source: Vaswani et al. 2017, sections 5.4 and 6.1.
    """

    batch = PairBatch
    data: PairData  # the datamodule of the trainer
    UNITS = UNITS
    COLUMNS = ("source", "reference", "translation")

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        label_smoothing: float = 0.1,
        beam: int = 4,
        length_penalty: float = 0.6,
        max_extra: int = 50,
        divergence: bool = False,
        smoothing_over_all: bool = False,
        length_form: LengthForm = "vaswani",
        min_length: int = 0,
        max_ratio: float = 1.0,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(f"label_smoothing must be in [0, 1), not {label_smoothing}")
        if divergence and smoothing_over_all:
            raise ValueError("smoothing_over_all and divergence are two ways to smooth; give one of them")
        check_search(beam, length_penalty, min_length, max_ratio=max_ratio)
        needed, vocabulary = "padded_score" if divergence else "score", getattr(net, "vocabulary", None)
        if vocabulary is not None and not hasattr(vocabulary, needed):
            raise ValueError(
                f"translation needs a vocabulary with {needed}, which {type(vocabulary).__name__} has not; "
                "take repro.nn.Vocabulary"
            )
        self.label_smoothing = label_smoothing
        self.smoothing_over_all = smoothing_over_all
        self.divergence = divergence
        self.search = Search(beam, length_penalty, max_extra, length_form, min_length, max_ratio)
        self.scores: dict[Evaluation, SentenceScores] = {}  # of the last evaluations
        self._predicted: dict[int, str] = {}

    def setup(self, stage: str) -> None:
        """Refuses to score a sentence with more tokens than the network learns positions, with a UserError."""
        super().setup(stage)
        window = longest_window(self.module)
        if window is None or datamodule_of(self.trainer) is None:
            return
        for evaluation in (self.validation(), *self.tests()):
            split = self.data.split(evaluation.kind)
            if (longest := self.data.longest(split)) > window:
                raise UserError(
                    f"a sentence of {split} has {longest} tokens, the network learns {window} positions only; "
                    f"set max_length of its positions to at least {longest}"
                )

    # --- training -----------------------------------------------------------------------------------------------

    def training_step(self, batch: PairBatch, batch_idx: int) -> StepResult:
        """Computes the loss of one micro-batch and its sums for the curves."""
        nll, smooth, aux = self._losses(batch)
        loss, total = smooth.double().sum().detach(), nll.double().sum().detach()
        sums: dict[str, Tensor | int] = {"loss": loss, "nll": total, "tokens": batch.target_lengths.sum()}
        share = self.share_of_step(smooth.sum(), batch.step_targets)
        if aux is not None:  # a mean weighted by targets, since rows are not shared evenly
            share = share + self.share_of_step((aux * batch.target_lengths).sum(), batch.step_targets)
        return {"loss": share, "sums": sums}

    def _losses(self, batch: PairBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Negative log-likelihood and smoothed loss of target tokens, ``(B, T)``, zero at padding; auxiliary loss."""
        mixed = self.net(batch.source, batch.source_lengths, batch.target_in, batch.target_lengths)
        hidden = mixed.y
        vocabulary = self.net.vocabulary
        scores: TokenScores | PaddedScores
        if self.divergence:
            scores = vocabulary.padded_score(hidden, batch.target_out, self.data.tokenizer.pad_id)
        else:
            scores = vocabulary.score(hidden, batch.target_out)
        steps = torch.arange(batch.target_out.shape[1], device=hidden.device)
        valid = steps < batch.target_lengths[:, None]
        others = 1.0 - 1.0 / vocabulary.size if self.smoothing_over_all else 1.0
        smooth = scores.smoothed(self.label_smoothing * others, vocabulary.size)
        return scores.nll * valid, smooth * valid, mixed.aux

    # --- evaluation ---------------------------------------------------------------------------------------------

    def validation(self) -> Evaluation:
        """The validation split, searched greedily."""
        return Evaluation("val", GREEDY)

    def metrics(self, evaluation: Evaluation) -> Metrics:
        """BLEU in its ways, exact match, likelihoods."""
        return {"translations": TranslationScores(self.data.target_language)}

    def score(self, batch: PairBatch, evaluation: Evaluation, metrics: Metrics) -> None:
        """Adds hypotheses, references and losses."""
        data, split = self.data, self.data.split(evaluation.kind)
        search = (
            self.search._replace(beam=1, length_penalty=0.0) if evaluation.name == GREEDY else self.search
        )
        nll, smooth, _ = self._losses(batch)
        ids = decode_batch(self.net, batch.source, batch.source_lengths, data.tokenizer, search).ids
        references = data.references(split)
        (scores,) = metrics.values()
        scores.update(
            batch.indices,
            [data.tokenizer.decode(row) for row in ids],
            [references[i] for i in batch.indices.tolist()],
            nll.double().sum(1),
            smooth.double().sum(1),
            batch.target_lengths,
        )

    def complete(self, evaluation: Evaluation, metrics: Metrics) -> None:
        """Keeps the sentences of the split, which every rank has."""
        (self.scores[evaluation],) = metrics.values()
        if evaluation.kind == "test":
            pairs = zip(self.data.sources(self.data.split("test")), self.scores[evaluation].rows, strict=True)
            self.shown = [(source, row.reference, row.text) for source, row in pairs]

    def predict_step(self, batch: PairBatch, batch_idx: int) -> dict[int, str]:
        """Translations of the test split, by the sentence's number."""
        if len(batch.indices) == 0:
            return {}
        tokenizer = self.data.tokenizer
        ids = decode_batch(self.net, batch.source, batch.source_lengths, tokenizer, self.search).ids
        translations = {i: tokenizer.decode(row) for i, row in zip(batch.indices.tolist(), ids, strict=True)}
        self._predicted.update(translations)
        return translations

    def on_predict_epoch_start(self) -> None:
        self._predicted = {}

    def on_predict_epoch_end(self) -> None:
        """Prints every translation in the order of the split."""
        translations = gather_rows(self._predicted)
        if self.trainer.is_global_zero:
            print("\n".join(map(one_line, translations)))

    # --- the record ---------------------------------------------------------------------------------------------

    def scores_of(self, kind: Kind) -> SentenceScores:
        """A split of the last test."""
        return self.scores[Evaluation(kind)]

    def reported(self, evaluation: Evaluation) -> bool:
        """Only test scores include the validation scores."""
        return evaluation.kind == "test"

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """The settings of the search, or of the measurement of a likelihood."""
        if metric in LIKELIHOODS:
            return self.forced(metric)
        return {**self.search.protocol, **self.signature(metric, scored.evaluation)}

    def signature(self, metric: str, evaluation: Evaluation) -> dict[str, str]:
        """The signature of a BLEU."""
        scores = self.scores[evaluation]
        signatures = scores.signatures if isinstance(scores, TranslationScores) else {}
        return {"signature": signatures[metric]} if metric in signatures else {}

    def counted(self, metric: str, scored: Scored) -> int:
        """Tokens of a likelihood, sentences of all else."""
        return scored.counts["tokens" if metric in LIKELIHOODS else "examples"]

    def measurements(self) -> list[Measurement]:
        """BLEU, exact match, likelihoods, each with the validation's of the same protocol; whether training failed."""
        val = next(scored for scored in self.tested if scored.evaluation == Evaluation("val"))
        lost = self.diverged(val, self.data.references(val.split))
        return [*super().measurements(), lost, failed(val.values["bleu"], lost)]

    def diverged(self, val: Scored, targets: Iterable[str]) -> Measurement:
        """Whether training failed, by the likelihood of the validation split's targets."""
        ids = map(self.data.tokenizer.encode, targets)
        return diverged(val.values["nll"], ids, val.split, val.counts["tokens"])

    def forced(self, metric: str) -> dict[str, Any]:
        """The settings under which a likelihood is measured."""
        smoothing = self.label_smoothing if metric == "loss" else 0.0
        protocol = {"teacher_forced": True, "end_symbol": "counted", "label_smoothing": smoothing}
        ways = {"divergence": self.divergence, "smoothing_over_all": self.smoothing_over_all}
        return protocol | {way: True for way, taken in ways.items() if taken and metric == "loss"}

    def translated(self) -> list[tuple[str, str]]:
        """Every sentence of the test that may be shown, and its hypothesis."""
        return [(source, text) for source, _, text in self.shown]


def decode_batch(
    net: EncoderDecoder, source: Tensor, lengths: Tensor, tokenizer: Tokenizer, search: Search
) -> Hypotheses:
    """The ``n_best`` best hypotheses of each source ``(B, S)``, without the end symbol."""
    return translate(
        net, source, lengths, bos=tokenizer.bos_id, eos=tokenizer.eos_id, pad=tokenizer.pad_id,
        beam=search.beam, alpha=search.length_penalty, max_extra=search.max_extra, max_ratio=search.max_ratio,
        length_form=search.length_form, min_length=search.min_length, n_best=search.n_best,
    )  # fmt: skip
