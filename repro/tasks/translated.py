"""A split that was translated: its hypotheses beside the references, and every metric of them."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from repro.tasks.bleu import WAYS, bleu


def one_line(text: str) -> str:
    """A hypothesis without line breaks: outputs are one sentence a line."""
    return text.replace("\n", " ")


class Sentence(NamedTuple):
    """One sentence: summed negative log-likelihood and smoothed loss, in nats, target tokens, hypothesis."""

    nll: float
    loss: float
    tokens: int
    text: str


@dataclass(frozen=True)
class TranslatedSplit:
    """A whole split, scored; rows, sources and references in the order of the split. Each metric is computed once."""

    split: str
    rows: list[Sentence]
    sources: list[str]
    references: list[str]
    language: str  # of the references

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)

    @cached_property
    def bleu(self) -> dict[str, tuple[float, str]]:
        """BLEU in each of its ways, and its signature."""
        texts = [row.text for row in self.rows]
        return {way: bleu(texts, self.references, way, self.language) for way in WAYS}

    @cached_property
    def summary(self) -> dict[str, float]:
        """Every metric of the split; sums in float64 in the order of the split, so ranks cannot change them."""
        hits = sum(row.text == wanted for row, wanted in zip(self.rows, self.references, strict=True))
        return {
            **{way: score for way, (score, _) in self.bleu.items()},
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
