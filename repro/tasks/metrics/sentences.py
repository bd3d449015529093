"""Scores of generated sentences, which are collected over a whole split."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from repro.tasks.metrics.bleu import WAYS, bleu
from repro.tasks.metrics.means import LARGEST

_STATES = {"indices": torch.int64, "nll": torch.float64, "loss": torch.float64, "tokens": torch.int64}
_TEXTS = {"sizes": torch.int64, "text": torch.uint8}  # sizes in bytes, then the bytes


class Sentence(NamedTuple):
    """One sentence: summed negative log-likelihood and smoothed loss, in nats, target tokens, hypothesis, reference."""

    nll: float
    loss: float
    tokens: int
    text: str
    reference: str


class SentenceScores(Metric):
    """Base of scores of a whole split, computed on every rank from all sentences in the order of the split.

    A sentence that is scored twice counts once. States are tensors of one axis, the texts as bytes; each begins as an
    empty one, so a rank without a batch takes part as well.

    Attributes:
        rows: the sentences in the order of the split, once it is computed.
    """

    full_state_update = False
    indices: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        for name in (*_STATES, *_TEXTS):
            self.add_state(name, [], dist_reduce_fx="cat")
        self.rows: list[Sentence] = []
        self._add_nothing()

    def reset(self) -> None:
        """Forgets all sentences."""
        super().reset()
        self._add_nothing()

    def _add_nothing(self) -> None:
        for name, dtype in {**_STATES, **_TEXTS}.items():
            getattr(self, name).append(torch.zeros(0, dtype=dtype, device=self.device))

    def update(
        self,
        indices: Tensor,
        hypotheses: Sequence[str],
        references: Sequence[str],
        nll: Tensor,
        loss: Tensor,
        tokens: Tensor,
    ) -> None:
        """Adds some sentences.

        Args:
            indices: their numbers in the split, ``(B,)``.
            hypotheses: generated texts.
            references: reference texts.
            nll: summed negative log-likelihood of the reference tokens, ``(B,)``.
            loss: summed loss with label smoothing, ``(B,)``.
            tokens: number of reference tokens, ``(B,)``.
        """
        texts = [text.encode() for pair in zip(hypotheses, references, strict=True) for text in pair]
        content = bytearray(b"".join(texts))
        new = {
            "indices": indices, "nll": nll, "loss": loss, "tokens": tokens,
            "sizes": torch.tensor([len(text) for text in texts]),
            "text": torch.frombuffer(content, dtype=torch.uint8) if content else torch.zeros(0),
        }  # fmt: skip
        for name, value in new.items():
            dtype = {**_STATES, **_TEXTS}[name]
            getattr(self, name).append(value.detach().to(self.device, dtype))

    def compute(self) -> dict[str, float]:
        """Computes every score by name."""
        self.rows = self._sentences()
        return self.scored(self.rows)

    def _sentences(self) -> list[Sentence]:
        columns = [dim_zero_cat(getattr(self, name)).tolist() for name in _STATES]
        sizes, text = (dim_zero_cat(getattr(self, name)) for name in _TEXTS)
        content, ends = text.cpu().numpy().tobytes(), sizes.cumsum(0).tolist()
        texts = [
            content[start:end].decode() for start, end in zip([0, *ends][: len(ends)], ends, strict=True)
        ]
        rows = zip(*columns, texts[::2], texts[1::2], strict=True)
        sentences = {index: Sentence(*fields) for index, *fields in rows}
        return [sentences[index] for index in sorted(sentences)]

    @abstractmethod
    def scored(self, rows: list[Sentence]) -> dict[str, float]:
        """Every score of a whole split."""

    @property
    def count(self) -> int:
        """Target tokens, end symbols among them, once it is computed."""
        return sum(row.tokens for row in self.rows)


class TranslationScores(SentenceScores):
    """BLEU in its ways, exact match, likelihoods.

    Args:
        language: of the references.

    Attributes:
        signatures: how each BLEU was counted, once it is computed.
    """

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language
        self.signatures: dict[str, str] = {}

    def scored(self, rows: list[Sentence]) -> dict[str, float]:
        texts, references = [row.text for row in rows], [row.reference for row in rows]
        scored = {way: bleu(texts, references, way, self.language) for way in WAYS}
        self.signatures = {way: signature for way, (_, signature) in scored.items()}
        hits = sum(row.text == row.reference for row in rows)
        return {
            **{way: score for way, (score, _) in scored.items()},
            "exact_match": 100.0 * hits / len(rows),
            **likelihoods(rows),
        }


def likelihoods(rows: Sequence[Sentence]) -> dict[str, float]:
    """Mean over the tokens: negative log-likelihood, perplexity, smoothed loss. Sums are exact, whatever the ranks."""
    tokens = sum(row.tokens for row in rows)
    nll = math.fsum(row.nll for row in rows) / tokens
    return {
        "nll": nll,
        "ppl": math.exp(min(nll, LARGEST)),
        "loss": math.fsum(row.loss for row in rows) / tokens,
    }


def one_line(text: str) -> str:
    """A hypothesis without line breaks of any kind, such as ``\\r`` or U+2028: outputs are one sentence a line."""
    return " ".join(text.splitlines())
