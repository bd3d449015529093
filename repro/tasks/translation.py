"""Translation: label-smoothed training, exact likelihoods, beam search and BLEU."""

import math
from typing import Any, NamedTuple

import torch
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor, nn

from repro.models.generate import Translator, translate
from repro.record import Measurement
from repro.tasks.bleu import WAYS, bleu
from repro.tasks.divergence import diverged, failed
from repro.tasks.task import OptimizerMaker, ScheduleMaker, Task

UNITS = {
    **dict.fromkeys(WAYS, "BLEU"),
    "exact_match": "percent of sentences",
    "nll": "nats per subword",
    "ppl": "perplexity per subword",
    "loss": "nats per subword",
}


class Search(NamedTuple):
    """How hypotheses are searched for.

    Attributes:
        beam: hypotheses kept; 1 is greedy.
        length_penalty: α of the length penalty ``((5 + length) / 6)^α``.
        max_extra: longest output less the length of its source, in tokens.
    """

    beam: int
    length_penalty: float
    max_extra: int


class Translation(Task):
    """Trains and scores an encoder-decoder on sentence pairs.

    Args:
        net: an :class:`~repro.models.EncoderDecoder`.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        label_smoothing: ε in [0, 1); reported likelihoods are without it.
        divergence: the smoothed loss is a Kullback-Leibler divergence in which padding has no share of ε
            (:class:`~repro.nn.PaddedScores`); else a cross-entropy over all tokens.
        beam: hypotheses kept in the test; validation during training is greedy.
        length_penalty: α.
        max_extra: longest output less the length of its source, in tokens.

    Source: Vaswani et al. 2017, sections 5.4 and 6.1.
    """

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
    ) -> None:
        super().__init__(net, optimizer, schedule)
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(f"label_smoothing must be in [0, 1), not {label_smoothing}")
        self.label_smoothing = label_smoothing
        self.divergence = divergence
        self.search = Search(beam, length_penalty, max_extra)
        self.tested: list[ScoredSplit] = []  # the test split and the validation split, beam search
        self.validated: ScoredSplit | None = None
        self._gathered: list[dict[int, Scored]] = []
        self._predicted: dict[int, str] = {}

    # --- training -----------------------------------------------------------------------------------------------

    def training_step(self, batch: Any, batch_idx: int) -> STEP_OUTPUT:
        """One micro-batch of :class:`~repro.data.batches.PairBatch`."""
        nll, smooth = self._losses(batch)
        sums = torch.stack([smooth.double().sum(), nll.double().sum()]).detach()
        loss = self.share_of_step(smooth.sum(), batch.step_tokens)
        return {"loss": loss, "sums": {"loss": sums[0], "nll": sums[1], "tokens": batch.target_lengths.sum()}}

    def _losses(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Negative log-likelihood and smoothed loss of every target token, ``(B, T)``, zero at padding."""
        hidden = self.net(batch.source, batch.source_lengths, batch.target_in, batch.target_lengths).y
        vocabulary = self.net.vocabulary
        if self.divergence:
            scores = vocabulary.padded_score(hidden, batch.target_out, self._tokenizer.pad_id)
        else:
            scores = vocabulary.score(hidden, batch.target_out)
        steps = torch.arange(batch.target_out.shape[1], device=hidden.device)
        valid = steps < batch.target_lengths[:, None]
        smooth = scores.smoothed(self.label_smoothing, vocabulary.size)
        return scores.nll * valid, smooth * valid

    # --- evaluation ---------------------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        self._gathered = [{}]

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._gathered[0].update(self._score(batch, self.search._replace(beam=1)))

    def on_validation_epoch_end(self) -> None:
        if self.trainer.sanity_checking:
            return
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        self.validated = self._collect(self._gathered[0], data.val_split)
        self.log_dict({f"val/{name}": value for name, value in self.validated.summary().items()})

    def on_test_epoch_start(self) -> None:
        self._gathered = [{} for _ in self._test_splits()]

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._gathered[dataloader_idx].update(self._score(batch, self.search))

    def on_test_epoch_end(self) -> None:
        pairs = zip(self._test_splits(), self._gathered, strict=True)
        self.tested = [self._collect(found, split) for split, found in pairs]
        summary = self.tested[0].summary()
        self.log_dict({f"test/{name}": value for name, value in summary.items()})

    def predict_step(self, batch: Any, batch_idx: int) -> dict[int, str]:
        """Translations of the test split, by the sentence's number."""
        if len(batch.index) == 0:
            return {}
        ids = decode_batch(self.net, batch.source, batch.source_lengths, self._tokenizer, self.search)
        found = {i: self._tokenizer.decode(row) for i, row in zip(batch.index.tolist(), ids, strict=True)}
        self._predicted.update(found)
        return found

    def on_predict_epoch_start(self) -> None:
        self._predicted = {}

    def on_predict_epoch_end(self) -> None:
        """Prints every translation in the order of the split."""
        merged = {i: text for part in self.gather_objects(self._predicted) for i, text in part.items()}
        if self.trainer.is_global_zero:
            print("\n".join(merged[i] for i in sorted(merged)))

    @property
    def _tokenizer(self) -> Any:
        return self.trainer.datamodule.tokenizer  # type: ignore[attr-defined]

    def _test_splits(self) -> list[str]:
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        return [data.test_split, data.val_split]

    @torch.no_grad()
    def _score(self, batch: Any, search: Search) -> "dict[int, Scored]":
        """Likelihood and hypothesis of each sentence of a batch, by its number in the split."""
        if len(batch.index) == 0:
            return {}
        nll, smooth = self._losses(batch)
        ids = decode_batch(self.net, batch.source, batch.source_lengths, self._tokenizer, search)
        rows = zip(
            batch.index.tolist(),
            nll.double().sum(1).tolist(),
            smooth.double().sum(1).tolist(),
            batch.target_lengths.tolist(),
            ids,
            strict=True,
        )
        return {i: Scored(n, s, count, self._tokenizer.decode(hyp)) for i, n, s, count, hyp in rows}

    def _collect(self, local: "dict[int, Scored]", split: str) -> "ScoredSplit":
        """Joins the sentences of all ranks and checks that each was scored exactly once."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        parts = self.gather_objects(local)
        merged = {index: scored for part in parts for index, scored in part.items()}
        references = data.references(split)
        if sum(map(len, parts)) != len(references) or sorted(merged) != list(range(len(references))):
            raise RuntimeError(
                f"{split}: {sum(map(len, parts))} sentences scored, the split has {len(references)}"
            )
        rows = [merged[index] for index in range(len(references))]
        tokens = sum(row.tokens for row in rows)
        if tokens != data.expected_tokens(split):
            raise RuntimeError(
                f"{split}: {tokens} tokens scored, the store has {data.expected_tokens(split)}"
            )
        return ScoredSplit(split, rows, data.sources(split), references, data.target_language)

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """BLEU, exact match, likelihoods, each with the validation's of the same protocol; whether training failed."""
        test, val = self.tested
        beam = {"beam": self.search.beam, "length_penalty": self.search.length_penalty}
        protocols: dict[str, dict[str, Any]] = {
            **{
                way: {**beam, "max_extra": self.search.max_extra, "signature": test.bleu(way)[1]}
                for way in WAYS
            },
            "exact_match": {**beam, "max_extra": self.search.max_extra},
        }
        beside = val.summary()
        found = []
        for name, value in test.summary().items():
            protocol = protocols.get(name) or self.forced(name)
            count = len(test.rows) if name in protocols else test.tokens
            found.append(
                Measurement(f"test/{name}", value, UNITS[name], test.split, protocol, count, beside[name])
            )
        predicted = map(self._tokenizer.encode, val.references)
        lost = diverged(beside["nll"], predicted, val.split, val.tokens)
        return [*found, lost, failed(beside["bleu"], lost), *super().measurements()]

    def forced(self, metric: str) -> dict[str, Any]:
        """How a likelihood is measured."""
        smoothing = self.label_smoothing if metric == "loss" else 0.0
        said = {"teacher_forced": True, "end_symbol": "counted", "label_smoothing": smoothing}
        return said | ({"divergence": True} if self.divergence and metric == "loss" else {})

    def samples(self, count: int = 20) -> tuple[list[str], list[list[str]]]:
        """The first sentences of the test with their translations: column names and rows."""
        test = self.tested[0]
        triples = zip(test.sources, test.references, test.rows, strict=True)
        return ["source", "reference", "translation"], [
            [s, r, row.text] for s, r, row in list(triples)[:count]
        ]

    def translated(self) -> list[tuple[str, str]]:
        """Every sentence of the test that may be shown, and its hypothesis."""
        test = self.tested[0]
        return [(source, row.text) for source, row in zip(test.sources, test.rows, strict=True)]

    def outputs(self) -> str | None:
        """The hypotheses of the test split, one a line."""
        test = self.tested[0]
        return "".join(f"{one_line(row.text)}\n" for row in test.rows)


def one_line(text: str) -> str:
    """A hypothesis without line breaks: outputs are one sentence a line."""
    return text.replace("\n", " ")


class Scored(NamedTuple):
    """One sentence: summed negative log-likelihood and smoothed loss, in nats, target tokens, hypothesis."""

    nll: float
    loss: float
    tokens: int
    text: str


class ScoredSplit(NamedTuple):
    """A whole split, scored; rows, sources and references in the order of the split."""

    split: str
    rows: list[Scored]
    sources: list[str]
    references: list[str]
    language: str  # of the references

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)

    def bleu(self, way: str) -> tuple[float, str]:
        """BLEU in one of its ways, and its signature."""
        return bleu([row.text for row in self.rows], self.references, way, self.language)

    def summary(self) -> dict[str, float]:
        """Every metric of the split; sums in float64 in the order of the split, so ranks cannot change them."""
        hits = sum(row.text == wanted for row, wanted in zip(self.rows, self.references, strict=True))
        return {
            **{way: self.bleu(way)[0] for way in WAYS},
            "exact_match": 100.0 * hits / len(self.rows),
            **self.likelihoods(),
        }

    def likelihoods(self) -> dict[str, float]:
        """Mean over the tokens, end symbols counted: negative log-likelihood, perplexity, smoothed loss."""
        nll = math.fsum(row.nll for row in self.rows) / self.tokens
        return {
            "nll": nll,
            "ppl": math.exp(min(nll, 700.0)),
            "loss": math.fsum(row.loss for row in self.rows) / self.tokens,
        }


def decode_batch(
    net: Translator, source: Tensor, lengths: Tensor, tokenizer: Any, search: Search
) -> list[list[int]]:
    """Best hypothesis of each source ``(B, S)``, as token ids without the end symbol."""
    return translate(
        net, source, lengths, bos=tokenizer.bos_id, eos=tokenizer.eos_id, pad=tokenizer.pad_id,
        beam=search.beam, alpha=search.length_penalty, max_extra=search.max_extra,
    ).ids  # fmt: skip
