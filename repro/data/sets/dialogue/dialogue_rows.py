"""Common parts of all conversations: marks, and rows of ids with their targets."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.padding import padded

MARKS = ("<doc>", "<speaker1>", "<speaker2>")  # ids of their own, behind those of words


class Ends(NamedTuple):
    """Symbols that no word is made of.

    Attributes:
        pad: padding.
        bos: begin symbol, which no row has.
        eos: behind a document.
    """

    pad: int
    bos: int
    eos: int


class Marked(ABC):
    """Base of datamodules of conversations; combined with a class for their source.

    Attributes:
        n_classes: ids there are, the marks among them.
        seq_len: tokens of a block, which a network sees at a time.
        score_all: in training every token counts.
    """

    n_classes: int
    seq_len: int
    score_all: bool

    @property
    @abstractmethod
    def ends(self) -> Ends:
        """Symbols that no word is made of."""

    @abstractmethod
    def words(self, ids: Sequence[int]) -> str:
        """The text of some ids."""

    @property
    def doc_id(self) -> int:
        """Id of ``<doc>``; those of ``<speaker1>`` and ``<speaker2>`` follow, and no tokeniser knows them."""
        return self.n_classes - len(MARKS)


def lay_out(rows: Sequence[tuple[Int64s, Int64s]], first_mark: int, pad: int, score_all: bool) -> Examples:
    """Conversations as rows of a language model.

    Args:
        rows: for each, the tokens before the utterances, and the utterances, each after its speaker's mark.
        first_mark: the lowest id of a mark.
        pad: id of padding.
        score_all: every token counts that follows another; else the words of utterances alone.

    Returns:
        Ids ``(B, T)``, T the longest of these, and what follows each; -1 where it does not count.
    """
    ids = [np.concatenate(row) for row in rows]
    following = [row[1:].copy() for row in ids]
    if not score_all:
        for row, (before, _) in zip(following, rows, strict=True):
            row[: len(before)] = -1
            row[row >= first_mark] = -1
    inputs, lengths = padded([row[:-1] for row in ids], pad, least=1)
    targets, _ = padded(following, -1, least=1)
    return Examples(inputs, targets, lengths=lengths)
