"""Similarity of generated texts to their references: means over pairs of texts, in percent.

Stems and synonyms come from nltk (``pip install repro[dialogue]``), which is imported where it is needed only.
"""

import re
import string
from abc import abstractmethod
from collections import Counter
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from repro.errors import UserError
from repro.tasks.metrics.means import Total

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_SYNONYMS = SimpleNamespace(synsets=lambda word: [])


class TextScore(Total):
    """Base of scores of a prediction against its reference; their mean in percent."""

    @abstractmethod
    def score(self, prediction: str, reference: str) -> float:
        """The score of one pair, in [0, 1]."""

    def update(self, prediction: str, reference: str) -> None:
        """Adds a pair."""
        self.total += self.score(prediction, reference)
        self.count += 1

    def compute(self) -> Tensor:
        """Percent; 0 where there is no pair."""
        return 100.0 * self.total / self.count.clamp(min=1)


class UnigramF1(TextScore):
    """Harmonic mean of the precision and recall of words, without order, see :func:`words_of`.

    Source: Martins et al. 2022, the dialogue experiment; the same as in SQuAD. ParlAI's differs: it puts a blank
        in the place of punctuation, so that ``it's`` is two words, not one.
    """

    def score(self, prediction: str, reference: str) -> float:
        words, reference_words = words_of(prediction), words_of(reference)
        same = sum((Counter(words) & Counter(reference_words)).values())
        return 2.0 * same / (len(words) + len(reference_words)) if same else 0.0


class Rouge(TextScore):
    """F measure of ROUGE with Porter's stems.

    Args:
        kind: ``rouge1`` (words without order) or ``rougeL`` (longest common subsequence).

    Source: Lin 2004; torchmetrics, which follows the package rouge-score.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def score(self, prediction: str, reference: str) -> float:
        from torchmetrics.functional.text.rouge import rouge_score

        scores = rouge_score(prediction, reference, use_stemmer=True, rouge_keys=self.kind)
        return float(scores[f"{self.kind}_fmeasure"])


class Meteor(TextScore):
    """METEOR of words between blanks, lower-cased, as nltk computes it.

    Args:
        synonyms: words also match by WordNet, which must be on disk; else as they are and by stems only.

    Source: Lavie and Agarwal 2007.
    """

    def __init__(self, synonyms: bool = True) -> None:
        super().__init__()
        self.synonyms = synonyms

    def score(self, prediction: str, reference: str) -> float:
        from nltk.translate.meteor_score import single_meteor_score

        other: dict[str, Any] = {} if self.synonyms else {"wordnet": _NO_SYNONYMS}
        return float(single_meteor_score(reference.split(), prediction.split(), **other))


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def require_wordnet(synonyms: bool) -> None:
    """Refuses to begin where nltk or its WordNet is missing, since nothing is downloaded in a run.

    Args:
        synonyms: whether WordNet is needed.

    Raises:
        UserError: something is missing; the message states what to install or to set.
    """
    try:
        import nltk
    except ImportError:
        raise UserError("METEOR and ROUGE need the package nltk: pip install 'repro[dialogue]'") from None
    if not synonyms:
        return
    try:
        nltk.data.find("corpora/wordnet/index.noun")
    except LookupError:
        raise UserError(
            "METEOR with synonyms: true needs WordNet: python -m nltk.downloader -d FOLDER wordnet, then set "
            "NLTK_DATA=FOLDER; or --model.generation.synonyms=false"
        ) from None
