"""Constituency parsing as translation of a sentence into a row of brackets: likelihoods, beam search, bracket F1."""

from functools import cached_property
from typing import Any

from repro.record import Measurement
from repro.tasks.brackets import Agreement, Bracket, Parse, compare, read_parse, score, write_parse
from repro.tasks.divergence import diverged
from repro.tasks.rebuilding import rebuild
from repro.tasks.task import Task
from repro.tasks.translation import Scored, ScoredSplit, Translation

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
_LIKELIHOODS = ("nll", "ppl", "loss")


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

    def _collect(self, local: dict[int, Scored], split: str) -> "ParsedSplit":
        return ParsedSplit(*super()._collect(local, split))

    @property
    def _parsed(self) -> list["ParsedSplit"]:
        """The test split and the validation split."""
        return [split for split in self.tested if isinstance(split, ParsedSplit)]

    def measurements(self) -> list[Measurement]:
        """Bracket scores and likelihoods, each with the validation's of the same protocol; whether training failed."""
        test, val = self._parsed
        beside = val.summary()
        found = []
        for name, value in test.summary().items():
            likelihood = name in _LIKELIHOODS
            protocol = self.forced(name) if likelihood else self._searched()
            count = test.tokens if likelihood else len(test.rows)
            found.append(
                Measurement(f"test/{name}", value, UNITS[name], test.split, protocol, count, beside[name])
            )
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        predicted = map(self._tokenizer.encode, data.targets(val.split))
        failed = diverged(beside["nll"], predicted, val.split, val.tokens)
        return [*found, failed, *Task.measurements(self)]

    def _searched(self) -> dict[str, Any]:
        return {
            **self.search._asdict(),
            "scorer": "evalb's rules with COLLINS.prm",
            "parts_of_speech": "the right tree's, by position",
            "sentences": "of all lengths",
        }

    def samples(self, count: int = 20) -> tuple[list[str], list[list[str]]]:
        """The first trees of the test with those predicted; nothing of a treebank that is not public."""
        if not self._public:
            return [], []
        test = self._parsed[0]
        pairs = zip(test.gold[:count], test.parses[:count], strict=True)
        return ["tree", "predicted tree"], [[write_parse(one) for one in pair] for pair in pairs]

    def translated(self) -> list[tuple[str, str]]:
        """Every sentence of the test and its row of symbols; nothing of a treebank that is not public."""
        return super().translated() if self._public else []

    @property
    def _public(self) -> bool:
        return bool(self.trainer.datamodule.public)  # type: ignore[attr-defined]


class ParsedSplit(ScoredSplit):
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
