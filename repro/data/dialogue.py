"""Conversations about documents as rows of a language model, each cut from its end into blocks."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from repro.batches import Examples
from repro.data.dialogue_sources import PARTS
from repro.data.draws import Int64s
from repro.data.examples import ExampleData
from repro.data.store import Store
from repro.data.stored import Opened
from repro.data.tokenizers import EOS_ID, PAD_ID, AnyTokenizer, load_tokenizer
from repro.errors import UserError

Seen = Literal["none", "cut", "whole"]
MARKS = ("<doc>", "<speaker1>", "<speaker2>")  # ids of their own, behind those of the store


def blocks(length: int, window: int) -> list[slice]:
    """Where the blocks of a row lie, in order: cut from its end, so that only the first may be shorter.

    Args:
        length: of the row, in tokens.
        window: tokens of a block.
    """
    edges = [0, *range(length % window or window, length + 1, window)] if length else [0]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def token_types(ids: Tensor, first: int) -> Tensor:
    """The mark that each token stands behind, which is itself for a mark: the token whose embedding GPT-2 adds.

    Args:
        ids: whole rows ``(B, T)``, not blocks of them.
        first: the lowest id of a mark; see :attr:`DialogueData.doc_id`.

    Returns:
        ``(B, T)`` ids of marks.
    """
    places = torch.arange(ids.shape[1], device=ids.device)
    return ids.gather(1, torch.where(ids >= first, places, 0).cummax(1).values)


@dataclass(frozen=True)
class DialogueReader:
    """Makes rows of the conversations of a split: ``<doc>`` document ``<eos>``, utterances behind their speakers.

    Args:
        store: of conversations.
        split: its name.
        seen: of the document: nothing, what fits into a window, or everything.
        window: tokens of a block.
        score_all: in training every token counts that follows another; else the words of utterances alone, as in
            evaluation.
    """

    store: Store
    split: str
    seen: Seen
    window: int
    score_all: bool = False

    @cached_property
    def turns(self) -> Int64s:
        """Where each conversation begins among the utterances, ``(N + 1,)``."""
        return self.store.offsets(self.split, "speakers")

    @cached_property
    def words(self) -> Int64s:
        """Where each conversation begins among the tokens of the utterances, ``(N + 1,)``."""
        return np.asarray(self.store.offsets(self.split, "utterances")[self.turns])

    @cached_property
    def context(self) -> Int64s:
        """Tokens of what stands before the utterances of each conversation, ``(N,)``."""
        topics = self.store.tokens(self.split, "topics")
        lengths = [len(self.document(place)) for place in range(int(topics.max()) + 1)]
        return np.array(lengths, np.int64)[topics]

    def lengths(self, indices: Int64s) -> Int64s:
        """Input tokens of some conversations, ``(B,)``."""
        words, turns = np.diff(self.words)[indices], np.diff(self.turns)[indices]
        return (self.context[indices] + words + turns - 1).astype(np.int64)

    def targets_of(self, indices: Int64s, epoch: int | None) -> Int64s:
        """Targets that count of some conversations, ``(B,)``."""
        if self.score_all and epoch is not None:
            return self.lengths(indices)
        return np.diff(self.words)[indices].astype(np.int64)

    def document(self, place: int) -> Int64s:
        """What stands before the utterances where a document is talked about, ``(S,)``."""
        if self.seen == "none":
            return np.zeros(0, np.int64)
        begin, end = self.store.offsets(self.split, "documents")[place : place + 2]
        if self.seen == "cut":
            begin = max(begin, end - (self.window - 2))
        text = self.store.tokens(self.split, "documents")[begin:end]
        return np.concatenate([[self.store.manifest.tokenizer["size"]], text, [EOS_ID]]).astype(np.int64)

    def utterances(self, index: int) -> Int64s:
        """The utterances of a conversation, each behind its speaker's mark, ``(T,)``."""
        turns = slice(*self.turns[index : index + 2])
        begin, end = self.words[index : index + 2]
        text = self.store.tokens(self.split, "utterances")[begin:end].astype(np.int64)
        speakers = self.store.tokens(self.split, "speakers")[turns].astype(np.int64)
        at = self.store.offsets(self.split, "utterances")[turns] - begin
        return np.insert(text, at, self.store.manifest.tokenizer["size"] + 1 + speakers)

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)``, T the longest of these, and what follows each; -1 where it does not count."""
        lengths, size = self.lengths(indices), self.store.manifest.tokenizer["size"]
        inputs = np.full((len(indices), int(lengths.max(initial=1))), PAD_ID, np.int64)
        targets = np.full_like(inputs, -1)
        topics = self.store.tokens(self.split, "topics")
        for row, i in enumerate(indices):
            said = self.utterances(int(i))
            ids = np.concatenate([self.document(int(topics[i])), said])
            following = ids[1:].copy()
            if not (self.score_all and epoch is not None):
                following[: len(ids) - len(said)] = -1
                following[following >= size] = -1
            inputs[row, : len(following)], targets[row, : len(following)] = ids[:-1], following
        return Examples(
            torch.from_numpy(inputs), torch.from_numpy(targets), lengths=torch.from_numpy(lengths)
        )


class DialogueData(Opened, ExampleData):
    """Conversations about documents from a prepared store; an example is a whole conversation.

    A task reads a row block by block: ``for block in blocks(row's length, data.seq_len)``. The memory is empty at the
    first block of every row and carried to the next ones; positions begin anew in each block. The losses of all blocks
    of a row make one update. :func:`token_types` of the whole row says which embedding is added to each token. Rows of
    several conversations have different blocks, as padding stands on the right: a task with a memory needs one
    conversation per rank and micro-batch.

    ``document: none`` shows no document; ``cut`` the last tokens of it, so that it is one window with its marks; with
    ``whole`` a network without a memory sees of it what is in a block of utterances.

    Args:
        vocab_size: ids there are: those of the store's subwords, and three marks.
        store: ``cmu-dog``, or with a variant, ``cmu-dog/given50261-1a2b3c4d`` for GPT-2's own tokeniser file; then the
            id of a subword is GPT-2's plus 4.
        batch_size: conversations of the global batch.
        document: what is shown of it: ``none``, ``cut`` or ``whole``.
        window: tokens of a block, W.
        score_all: in training every token counts, as in the authors' code, so that a model learns when an utterance
            ends; else the words of utterances alone. Evaluation scores those in both cases, and ``counts`` has them.
        eval_batch_size: conversations of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        seq_len: tokens of a block, which a network sees at a time.
        doc_id: id of ``<doc>``; those of ``<speaker1>`` and ``<speaker2>`` follow. The tokeniser knows none of them.
        public: whether what is said may stand in records; no licence allows it.

    Raises:
        UserError: a number out of range.

    Source: Martins et al. 2022, document grounded dialogue, and the authors' code.
    Deviation: the authors read files of their own, which are not published. Here a document is all facts and scenes of
        its file, and consecutive utterances of one speaker stay apart. Their speakers take turns whoever speaks, and
        the first token of a block is not predicted. Their code drops the last 512 tokens of a document to cut it.
    """

    public = False

    def __init__(
        self,
        vocab_size: int,
        store: str = "cmu-dog",
        batch_size: int = 1,
        document: Seen = "whole",
        window: int = 512,
        score_all: bool = False,
        eval_batch_size: int = 1,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        if window < 3:
            raise UserError(f"window must be at least 3, not {window}: <doc>, a token and <eos>")
        self.store_name, _, self.variant = store.partition("/")
        self.vocab_size = self.input_size = self.n_classes = vocab_size
        self.document: Seen = document
        self.seq_len = window
        self.score_all = score_all

    def setup(self, stage: str | None = None) -> None:
        """Opens the store; from then on ``n_targets`` is the mean of the conversations to train on."""
        super().setup(stage)
        targets = self.targets_of(self.train_split, np.arange(self.size(self.train_split)), None)
        self.n_targets = round(float(targets.mean()))

    def check(self, store: Store) -> None:
        """Refuses a store of anything else.

        Raises:
            UserError: it holds no conversations, or has another vocabulary size.
        """
        if tuple(store.manifest.parts) != PARTS:
            raise UserError(f"store {store.name} holds {', '.join(store.manifest.parts)}, not conversations")
        there = store.manifest.tokenizer["size"] + len(MARKS)
        if there != self.vocab_size:
            raise UserError(
                f"store {store.name} and {len(MARKS)} marks make a vocabulary of {there}, not {self.vocab_size}; "
                "set data.vocab_size"
            )

    @cached_property
    def tokenizer(self) -> AnyTokenizer:
        """What turned the text into tokens."""
        return load_tokenizer(self.store.tokenizer_path)

    @property
    def doc_id(self) -> int:
        """Id of ``<doc>``, the lowest of the marks."""
        return self.n_classes - len(MARKS)

    def size(self, split: str) -> int:
        """Conversations of a split."""
        return len(self.reader(split).turns) - 1

    def reader(self, split: str) -> DialogueReader:
        """What makes the rows of a split."""
        return DialogueReader(self.store, split, self.document, self.seq_len, self.score_all)

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """How many targets of some conversations count, ``(B,)``."""
        return self.reader(split).targets_of(indices, epoch)
