"""Conversations about documents as rows of a language model, each cut from its end into blocks: stored or generated."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Literal, NamedTuple, cast

import numpy as np

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.examples import ExampleData
from repro.data.core.generated import GeneratedData, Purpose, below, raw
from repro.data.core.segments import padded
from repro.data.sets.dialogue.cmu_dog import DOCUMENTS, PARTS
from repro.data.store_data import TokenStoreDataModule
from repro.data.table import Array
from repro.data.tokenizers.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPECIALS, Gpt2Bpe, Subwords
from repro.errors import at_least

MARKS = ("<doc>", "<speaker1>", "<speaker2>")  # ids of their own, behind those of words
SYLLABLES = tuple("".join(pair) for pair in product("bdfgklmnprst", "aeiou"))
Seen = Literal["none", "cut", "whole"]


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


def shown(document: Array, seen: Seen, window: int, doc_id: int, eos: int) -> Int64s:
    """The tokens before the utterances of a conversation: ``<doc>``, what is seen of the document, ``<eos>``; or none.

    Args:
        document: its ids, ``(S,)``.
        seen: nothing, what fits into a window with both marks, or everything.
        window: tokens of a block.
        doc_id: id of ``<doc>``.
        eos: id of ``<eos>``.
    """
    if seen == "none":
        return np.zeros(0, np.int64)
    text = document[max(0, len(document) + 2 - window) :] if seen == "cut" else document
    return np.concatenate([[doc_id], text, [eos]]).astype(np.int64)


class DialogueData(TokenStoreDataModule, ExampleData):
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
        doc_id: id of ``<doc>``; those of ``<speaker1>`` and ``<speaker2>`` follow; no tokeniser has them.
        public: whether texts may appear in records; no licence allows it.

    Raises:
        UserError: a number out of range.

    Source: Martins et al. 2022, document grounded dialogue, and the authors' code.
    Deviation: the authors read files of their own, which are not published. Here a document is all facts and scenes of
        its file, and consecutive utterances of one speaker stay apart. Their speakers take turns whoever speaks, and
        the first token of a block is not predicted. Their code drops the last 512 tokens of a document to cut it.
    """

    parts = PARTS
    content = "conversations"
    added_symbols = len(MARKS)
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
        self.doc_id = vocab_size - len(MARKS)
        self.document: Seen = document
        self.seq_len = window
        self.score_all = score_all

    @property
    def ends(self) -> Ends:
        """The tokeniser's special symbols; GPT-2's only one is also padding."""
        tokenizer = cast(Subwords | Gpt2Bpe, self.tokenizer)
        pad = tokenizer.eos_id if tokenizer.pad_id is None else tokenizer.pad_id
        return Ends(pad, tokenizer.bos_id, tokenizer.eos_id)

    def words(self, ids: Sequence[int]) -> str:
        """The text of some ids."""
        return self.tokenizer.decode(ids)

    def size(self, split: str) -> int:
        """Conversations of a split."""
        return len(self.store.values(split, "topics"))

    def row(self, split: str, index: int) -> tuple[Int64s, Int64s]:
        """The tokens before the utterances of a conversation, and the utterances, each after its speaker's mark."""
        topic = self.store.values(split, "topics")[index]
        (document,) = self.store.rows(DOCUMENTS, DOCUMENTS, [topic])
        words, speakers, lengths = (
            self.store.rows(split, part, [index])[0].astype(np.int64)
            for part in ("utterances", "speakers", "lengths")
        )
        utterances = np.insert(words, np.cumsum(lengths) - lengths, self.doc_id + 1 + speakers)
        return shown(document, self.document, self.seq_len, self.doc_id, self.ends.eos), utterances

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """Scored targets of some conversations, ``(B,)``."""
        if self.score_all and epoch is not None:
            return np.array([sum(map(len, self.row(split, int(i)))) - 1 for i in indices], np.int64)
        return np.diff(self.store.offsets(split, "utterances"))[indices]

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)``, T the longest of these, and what follows each; -1 where it does not count."""
        rows = [self.row(split, int(i)) for i in indices]
        return lay_out(rows, self.doc_id, self.ends.pad, self.score_all and epoch is not None)


@dataclass(frozen=True)
class Talk:
    """Sizes of generated conversations.

    Args:
        sections: of a document.
        section_words: words of a section.
        topics: there are.
        topic_words: words of a topic; topics share none.
        questions: of a conversation.
        answer_words: words of an answer.

    Raises:
        UserError: a size below 1.
    """

    sections: int = 4
    section_words: int = 7
    topics: int = 8
    topic_words: int = 4
    questions: int = 3
    answer_words: int = 4

    def __post_init__(self) -> None:
        at_least(1, **asdict(self))

    @property
    def words(self) -> int:
        """Number of symbols that are not marks: special ones, names of sections, words of topics."""
        return SPECIALS + self.sections + self.topics * self.topic_words

    @property
    def utterance_tokens(self) -> int:
        """Words of the utterances of a conversation."""
        return self.questions * (1 + self.answer_words)


class GeneratedDialogueData(GeneratedData):
    """Generated conversations, read as :class:`DialogueData`; they are new in each epoch.

    One speaker names a section of the document, the other gives words of its topic. A document has its sections in
    order: the section's name, then words of a topic that is drawn for it. A question is the name of a section, drawn
    anew each time; its answer are words drawn from that section's topic. So each word of an answer is one of
    ``topic_words`` for who has read the section or heard an answer about it. For who has not, the first word is one of
    ``topics * topic_words``.

    Args:
        batch_size: conversations of the global batch.
        document: what is shown of it: ``none``, ``cut`` or ``whole``.
        window: tokens of a block, W.
        talk: sizes of conversations.
        score_all: in training every token counts; else the words of utterances alone.
        train_examples: conversations of an epoch.
        eval_examples: of the validation split and of the test split.
        eval_batch_size: conversations of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        vocab_size: ids there are, the marks among them.
        doc_id: id of ``<doc>``.
        ends: symbols that no word is made of.

    Raises:
        UserError: a number out of range.
    """

    store_name = "generated-dialogue"
    made_of = ("seen", "window", "talk", "score_all")
    ends = Ends(PAD_ID, BOS_ID, EOS_ID)

    def __init__(
        self,
        batch_size: int,
        document: Seen = "whole",
        window: int = 32,
        talk: Talk = Talk(),
        score_all: bool = False,
        train_examples: int = 4_000,
        eval_examples: int = 200,
        eval_batch_size: int = 50,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, train_examples, eval_examples, eval_batch_size, seed, num_workers)
        at_least(3, window=window)
        self.seen: Seen = document
        self.talk = talk
        self.doc_id = talk.words
        self.vocab_size = self.input_size = self.n_classes = talk.words + len(MARKS)
        self.seq_len = self.window = window
        self.score_all, self.n_targets = score_all, talk.utterance_tokens

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """Scored targets of some conversations, ``(B,)``, the same for all."""
        every = self.score_all and epoch is not None
        count = sum(map(len, self.row(split, 0, epoch))) - 1 if every else self.n_targets
        return np.full(len(indices), count, np.int64)

    def row(self, split: str, index: int, epoch: int | None) -> tuple[Int64s, Int64s]:
        """The tokens before the utterances, and the utterances, each after its speaker's mark."""
        rules = self.talk
        counts = [rules.sections, rules.sections * rules.section_words, rules.questions]
        ends = np.cumsum([*counts, rules.questions * rules.answer_words])
        drawn = raw(int(ends[-1]), Purpose.DIALOGUE, split, epoch, index)
        topic, word, question, answer = np.split(drawn, ends[:-1])
        # the first word of each section's topic
        first = SPECIALS + rules.sections + rules.topic_words * below(topic, rules.topics)
        names = SPECIALS + np.arange(rules.sections)
        text = first[:, None] + below(word, rules.topic_words).reshape(rules.sections, -1)
        sections = below(question, rules.sections)
        answers = first[sections][:, None] + below(answer, rules.topic_words).reshape(rules.questions, -1)
        speakers = np.tile(rules.words + np.array([1, 2]), (rules.questions, 1))
        questions = names[sections][:, None]
        utterances = np.concatenate([speakers[:, :1], questions, speakers[:, 1:], answers], 1).ravel()
        document = np.concatenate([names[:, None], text], 1).ravel()
        return shown(document, self.seen, self.window, rules.words, EOS_ID), utterances

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)`` and what follows each; -1 where it does not count."""
        rows = [self.row(split, int(i), epoch) for i in indices]
        return lay_out(rows, self.talk.words, PAD_ID, self.score_all and epoch is not None)

    def words(self, ids: Sequence[int]) -> str:
        """Two syllables for each id, of the first 3,600."""
        pairs = (divmod(i % len(SYLLABLES) ** 2, len(SYLLABLES)) for i in ids)
        return " ".join(SYLLABLES[first] + SYLLABLES[second] for first, second in pairs)
