"""Common parts of all conversations: marks, and rows of ids with their targets."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s

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
    lengths = np.array([len(before) + len(spoken) - 1 for before, spoken in rows], np.int64)
    inputs = np.full((len(rows), int(lengths.max(initial=1))), pad, np.int64)
    targets = np.full_like(inputs, -1)
    for row, (before, spoken) in enumerate(rows):
        ids = np.concatenate([before, spoken])
        following = ids[1:].copy()
        if not score_all:
            following[: len(before)] = -1
            following[following >= first_mark] = -1
        inputs[row, : len(following)], targets[row, : len(following)] = ids[:-1], following
    return Examples(torch.from_numpy(inputs), torch.from_numpy(targets), lengths=torch.from_numpy(lengths))
