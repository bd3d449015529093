"""Scores of predicted trees."""

from repro.tasks.metrics.brackets import compare, score
from repro.tasks.metrics.rebuilding import rebuild
from repro.tasks.metrics.sentences import Sentence, SentenceScores, likelihoods
from repro.trees import TOP, Bracket, Parse, read_parses


class ParseScores(SentenceScores):
    """Bracket scores as ``evalb`` counts them, repairs and likelihoods.

    References are trees in one line, hypotheses rows of symbols. A hypothesis is read as brackets over the sentence,
    whatever it looks like (see :mod:`repro.tasks.metrics.rebuilding`). Rows of symbols have no parts of speech: a
    predicted tree takes those of the right one, word by word, so the same punctuation is left out of both.

    Attributes:
        gold: the gold trees, once it is computed.
        parses: the predicted trees, once it is computed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gold: list[Parse] = []
        self.parses: list[Parse] = []

    def scored(self, rows: list[Sentence]) -> dict[str, float]:
        self.gold = list(read_parses((row.reference for row in rows), "the right trees"))
        self.parses, repaired = [], 0
        for row, gold in zip(rows, self.gold, strict=True):
            brackets, repairs = rebuild(row.text.split(), len(gold.words))
            whole = Bracket(TOP, 0, len(gold.words))
            self.parses.append(gold._replace(brackets=(whole, *brackets)))
            repaired += repairs > 0
        scores = score(compare(*pair) for pair in zip(self.gold, self.parses, strict=True))
        return {
            "f1": scores.f1,
            "precision": scores.precision,
            "recall": scores.recall,
            "complete_match": scores.complete_match,
            "repaired": 100.0 * repaired / len(rows),
            **likelihoods(rows),
        }
