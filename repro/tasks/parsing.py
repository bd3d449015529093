"""Constituency parsing as translation of a sentence into a row of brackets: likelihoods, beam search, bracket F1."""

from typing import Any, Protocol

from repro.batches import Evaluation
from repro.record import Measurement
from repro.tasks.evaluated import EvaluatedTask, Metrics, Scored
from repro.tasks.metrics.parses import ParseScores
from repro.tasks.translation import LIKELIHOODS, PairData, Translation
from repro.trees import write_parse

UNITS = {
    "f1": "percent",
    "precision": "percent of brackets found",
    "recall": "percent of brackets",
    "complete_match": "percent of sentences",
    "repaired": "percent of sentences",
    "nll": "nats per symbol",
    "ppl": "perplexity per symbol",
    "loss": "nats per symbol",
}


class TreeData(PairData, Protocol):
    """The attributes of the datamodule that parsing uses; its references are the right trees."""

    def targets(self, split: str) -> list[str]:
        """The rows of symbols that are predicted, a line each."""
        ...


class Parsing(Translation):
    """Trains and scores an encoder-decoder on sentences and their trees as rows of symbols.

    Trained and searched as a translation, and scored as ``evalb`` does over sentences of all lengths; see
    :class:`~repro.tasks.metrics.parses.ParseScores`. The words are always the sentence's own, so no sentence is left
    out but those with nothing but punctuation.

    The datamodule is one of :class:`~repro.data.sets.treebank.parsing_data.ParsingData`; its references are the right
    trees, a line each. The constructor is :class:`Translation`'s.

    Source: Vaswani et al. 2017, section 6.3; Vinyals et al. 2015 (arXiv:1412.7449), section 2.2.
    """

    data: TreeData  # the datamodule of the trainer
    UNITS = UNITS

    def metrics(self, evaluation: Evaluation) -> Metrics:
        """Bracket scores, repairs, likelihoods."""
        return {"parses": ParseScores()}

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """The settings of search and comparison of trees, or of the measurement of a likelihood."""
        if metric in LIKELIHOODS:
            return self.forced(metric)
        return {
            **self.search.protocol,
            "scorer": "evalb's rules with COLLINS.prm",
            "parts_of_speech": "the right tree's, by position",
            "sentences": "of all lengths",
        }

    def measurements(self) -> list[Measurement]:
        """Bracket scores and likelihoods, each with the validation's of the same protocol; whether training failed."""
        val = next(scored for scored in self.tested if scored.evaluation == Evaluation("val"))
        return [*EvaluatedTask.measurements(self), self.diverged(val, self.data.targets(val.split))]

    def samples(self, count: int = 20) -> tuple[list[str], list[list[str]]]:
        """The first trees of the test with those predicted; none if the treebank is not public."""
        test = self.scores_of("test")
        if not self.data.public or not isinstance(test, ParseScores):
            return [], []
        pairs = zip(test.gold[:count], test.parses[:count], strict=True)
        return ["tree", "predicted tree"], [[write_parse(parse) for parse in pair] for pair in pairs]

    def translated(self) -> list[tuple[str, str]]:
        """Every sentence of the test and its row of symbols; none if the treebank is not public."""
        return super().translated() if self.data.public else []
