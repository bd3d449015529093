"""Conversations about documents as rows of a language model, each cut from its end into blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

import numpy as np

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.examples import ExampleData
from repro.data.sets.dialogue.cmu_dog import DOCUMENTS, PARTS
from repro.data.sets.dialogue.dialogue_rows import MARKS, Ends, Marked, lay_out
from repro.data.store import Store
from repro.data.store_data import StoreDataModule
from repro.data.tokenizers.gpt2_bpe import Gpt2Bpe
from repro.data.tokenizers.loading import load_tokenizer
from repro.data.tokenizers.tokenizer import Subwords
from repro.errors import UserError, at_least

Seen = Literal["none", "cut", "whole"]


@dataclass(frozen=True)
class DialogueReader:
    """Makes rows of the conversations of a split: ``<doc>`` document ``<eos>``, utterances behind their speakers.

    Args:
        store: of conversations.
        split: its name.
        seen: of the document: nothing, what fits into a window, or everything.
        window: tokens of a block.
        ends: symbols that no word is made of.
        score_all: in training every token counts that follows another; else the words of utterances alone, as in
            evaluation.
    """

    store: Store
    split: str
    seen: Seen
    window: int
    ends: Ends
    score_all: bool = False

    @cached_property
    def turns(self) -> Int64s:
        """Offsets of the conversations among the utterances, ``(N + 1,)``."""
        return self.store.offsets(self.split, "speakers")

    @cached_property
    def words(self) -> Int64s:
        """Offsets of the conversations among the tokens of the utterances, ``(N + 1,)``."""
        return self.store.offsets(self.split, "utterances")

    @cached_property
    def context(self) -> Int64s:
        """Numbers of tokens before the utterances of each conversation, ``(N,)``."""
        topics = self.store.values(self.split, "topics")
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
        """The tokens before the utterances of a conversation about a document, ``(S,)``."""
        if self.seen == "none":
            return np.zeros(0, np.int64)
        begin, end = self.store.offsets(DOCUMENTS, DOCUMENTS)[place : place + 2]
        if self.seen == "cut":
            begin = max(begin, end - (self.window - 2))
        text = self.store.values(DOCUMENTS, DOCUMENTS)[begin:end]
        return np.concatenate([[self.store.manifest.tokenizer["size"]], text, [self.ends.eos]]).astype(
            np.int64
        )

    def utterances(self, index: int) -> Int64s:
        """The utterances of a conversation, each behind its speaker's mark, ``(T,)``."""
        turns = slice(*self.turns[index : index + 2])
        begin, end = self.words[index : index + 2]
        text = self.store.values(self.split, "utterances")[begin:end].astype(np.int64)
        speakers = self.store.values(self.split, "speakers")[turns].astype(np.int64)
        lengths = self.store.values(self.split, "lengths")[turns].astype(np.int64)
        at = np.cumsum(lengths) - lengths
        return np.insert(text, at, self.store.manifest.tokenizer["size"] + 1 + speakers)

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)``, T the longest of these, and what follows each; -1 where it does not count."""
        topics = self.store.values(self.split, "topics")
        rows = [(self.document(int(topics[i])), self.utterances(int(i))) for i in indices]
        first_mark = self.store.manifest.tokenizer["size"]
        return lay_out(rows, first_mark, self.ends.pad, self.score_all and epoch is not None)


class DialogueData(Marked, StoreDataModule, ExampleData):
    """Conversations about documents from a prepared store; an example is a whole conversation.

    A task reads a row in blocks that are cut from its end, so that only the first may be shorter. The memory is empty
    at the first block of every row and carried to the next ones; positions begin anew in each block. The losses of all
    blocks of a row make one update. See :mod:`repro.tasks.language.reading`.

    ``document: none`` shows no document; ``cut`` the last tokens of it, so that it is one window with its marks; with
    ``whole`` a network without a memory sees of it what is in a block of utterances.

    Args:
        vocab_size: ids there are: those of the store's subwords, and three marks.
        store: ``cmu-dog``, or with a variant, ``cmu-dog/gpt2`` for GPT-2's subwords under its own numbers.
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
        public: whether what is said may stand in records; no licence allows it.

    Raises:
        UserError: a number out of range.

    Source: Martins et al. 2022, document grounded dialogue, and the authors' code.
    Deviation: the authors read files of their own, which are not published. Here a document is all facts and scenes of
        its file, and consecutive utterances of one speaker stay apart. Their speakers take turns whoever speaks, and
        the first token of a block is not predicted. Their code drops the last 512 tokens of a document to cut it.
    """

    parts = PARTS
    content = "conversations"
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
        at_least(3, window=window)
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
        """Refuses a store that does not fit.

        Raises:
            UserError: it has another vocabulary size.
        """
        size = store.manifest.tokenizer["size"] + len(MARKS)
        if size != self.vocab_size:
            raise UserError(
                f"store {store.name} and {len(MARKS)} marks make a vocabulary of {size}, not {self.vocab_size}; "
                "set data.vocab_size"
            )

    @cached_property
    def tokenizer(self) -> Subwords | Gpt2Bpe:
        """The tokeniser of the text."""
        return cast(Subwords | Gpt2Bpe, load_tokenizer(self.store.tokenizer_path))

    @property
    def ends(self) -> Ends:
        """The tokeniser's special symbols; GPT-2's only one is also padding."""
        tokenizer = self.tokenizer
        pad = tokenizer.eos_id if tokenizer.pad_id is None else tokenizer.pad_id
        return Ends(pad, tokenizer.bos_id, tokenizer.eos_id)

    def words(self, ids: Sequence[int]) -> str:
        """The text of some ids."""
        return self.tokenizer.decode(ids)

    def size(self, split: str) -> int:
        """Conversations of a split."""
        return len(self.reader(split).turns) - 1

    def reader(self, split: str) -> DialogueReader:
        """The reader of a split, which makes its rows."""
        return DialogueReader(self.store, split, self.document, self.seq_len, self.ends, self.score_all)

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """Scored targets of some conversations, ``(B,)``."""
        return self.reader(split).targets_of(indices, epoch)
