"""Constituency parsing as translation of a sentence into a row of brackets: likelihoods, beam search, bracket F1."""

from functools import cached_property
from typing import Any, Protocol, cast

from repro.record import Measurement
from repro.tasks.brackets import Agreement, Bracket, Parse, compare, read_parse, score, write_parse
from repro.tasks.evaluated import EvaluatedTask, Scored
from repro.tasks.rebuilding import rebuild
from repro.tasks.translated import TranslatedSplit
from repro.tasks.translation import LIKELIHOODS, PairData, Translation

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
    """What parsing reads of its datamodule; its references are the right trees."""

    def targets(self, split: str) -> list[str]:
        """The rows of symbols that are predicted, a line each."""
        ...


class ParsedSplit(TranslatedSplit):
    """A whole split, scored; its references are trees in one line, its hypotheses rows of symbols."""

    @cached_property
    def gold(self) -> list[Parse]:
        """The right trees."""
        return [read_parse(line) for line in self.references]

    @cached_property
    def _rebuilt(self) -> list[tuple[Parse, int]]:
        """The predicted trees, and how many repairs each needed."""
        found = []
        for row, gold in zip(self.rows, self.gold, strict=True):
            brackets, repairs = rebuild(row.text.split(), len(gold.words))
            whole = Bracket("TOP", 0, len(gold.words))
            found.append((gold._replace(brackets=(whole, *brackets)), repairs))
        return found

    @property
    def parses(self) -> list[Parse]:
        """The predicted trees."""
        return [parse for parse, _ in self._rebuilt]

    @property
    def agreements(self) -> list[Agreement]:
        """How far each predicted tree agrees with the right one."""
        return [compare(*pair) for pair in zip(self.gold, self.parses, strict=True)]

    @cached_property
    def summary(self) -> dict[str, float]:
        """Every metric of the split."""
        brackets = score(self.agreements)
        repaired = sum(repairs > 0 for _, repairs in self._rebuilt)
        return {
            "f1": brackets.f1,
            "precision": brackets.precision,
            "recall": brackets.recall,
            "complete_match": brackets.complete_match,
            "repaired": 100.0 * repaired / len(self.rows),
            **self.likelihoods(),
        }


class Parsing(Translation):
    """Trains and scores an encoder-decoder on sentences and their trees as rows of symbols.

    Trained and searched as a translation. A hypothesis is read as brackets over the sentence, whatever it looks like
    (see :mod:`repro.tasks.rebuilding`), and scored as ``evalb`` does (see :mod:`repro.tasks.brackets`) over sentences
    of all lengths. Rows of symbols have no parts of speech: a predicted tree takes those of the right one, word by
    word, so the same punctuation is left out of both. The words are always the sentence's own, so no sentence is left
    out but those with nothing but punctuation.

    The datamodule is one of :class:`~repro.data.parsing.ParsingData`; its references are the right trees, a line each.
    The constructor is :class:`Translation`'s.

    Source: Vaswani et al. 2017, section 6.3; Vinyals et al. 2015 (arXiv:1412.7449), section 2.2.
    """

    UNITS = UNITS
    SPLIT = ParsedSplit

    @property
    def data(self) -> TreeData:
        """The datamodule of the trainer."""
        return cast(TreeData, super().data)

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """How trees were searched for and compared, or how a likelihood is measured."""
        if metric in LIKELIHOODS:
            return self.forced(metric)
        return {
            **self.search._asdict(),
            "scorer": "evalb's rules with COLLINS.prm",
            "parts_of_speech": "the right tree's, by position",
            "sentences": "of all lengths",
        }

    def measurements(self) -> list[Measurement]:
        """Bracket scores and likelihoods, each with the validation's of the same protocol; whether training failed."""
        val = self.split_of("val")
        return [*EvaluatedTask.measurements(self), self.diverged(val, self.data.targets(val.split))]

    def samples(self, count: int = 20) -> tuple[list[str], list[list[str]]]:
        """The first trees of the test with those predicted; nothing of a treebank that is not public."""
        test = self.split_of("test")
        if not self.data.public or not isinstance(test, ParsedSplit):
            return [], []
        pairs = zip(test.gold[:count], test.parses[:count], strict=True)
        return ["tree", "predicted tree"], [[write_parse(one) for one in pair] for pair in pairs]

    def translated(self) -> list[tuple[str, str]]:
        """Every sentence of the test and its row of symbols; nothing of a treebank that is not public."""
        return super().translated() if self.data.public else []
