"""Generated conversations about generated documents: the same on any machine."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.generated import DIALOGUE, ExampleGenerator, GeneratedData, below, raw
from repro.data.sets.dialogue.dialogue_data import Seen
from repro.data.sets.dialogue.dialogue_rows import MARKS, Ends, Marked, lay_out
from repro.data.tokenizers.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPECIALS
from repro.errors import UserError, at_least

SYLLABLES = tuple("".join(pair) for pair in product("bdfgklmnprst", "aeiou"))


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
        UserError: a size below 1, or more words than can be written with two syllables each.
    """

    sections: int = 4
    section_words: int = 7
    topics: int = 8
    topic_words: int = 4
    questions: int = 3
    answer_words: int = 4

    def __post_init__(self) -> None:
        at_least(1, **asdict(self))
        if self.words > len(SYLLABLES) ** 2:
            raise UserError(
                f"talk has {self.words} words, only {len(SYLLABLES) ** 2} can be written; lower talk.topics or "
                "talk.topic_words"
            )

    @property
    def words(self) -> int:
        """Number of symbols that are not marks: special ones, names of sections, words of topics."""
        return SPECIALS + self.sections + self.topics * self.topic_words

    @property
    def spoken(self) -> int:
        """Words of the utterances of a conversation."""
        return self.questions * (1 + self.answer_words)


@dataclass(frozen=True)
class GeneratedDialogue(ExampleGenerator):
    """Conversations of one split: one speaker names a section of the document, the other says words of its topic.

    A document has its sections in order: the section's name, then words of a topic that is drawn for it. A question is
    the name of a section, drawn anew each time; its answer are words drawn from that section's topic. So each word of
    an answer is one of ``topic_words`` for who has read the section or heard an answer about it. For who has not, the
    first word is one of ``topics * topic_words``.

    Args:
        seen: of the document: nothing, as many of its last tokens as a window holds, or everything.
        window: tokens of a block.
        talk: sizes.
        score_all: in training every token counts; else the words of utterances alone, as in evaluation.
    """

    seen: Seen
    window: int
    talk: Talk
    score_all: bool = False

    @property
    def shown(self) -> int:
        """Tokens in front of the utterances, of which two are marks of the document's ends."""
        whole = 2 + self.talk.sections * (1 + self.talk.section_words)
        return {"none": 0, "cut": min(whole, self.window), "whole": whole}[self.seen]

    def targets_of(self, epoch: int | None) -> int:
        """Targets that count of a conversation."""
        every = self.shown + self.talk.spoken + 2 * self.talk.questions - 1
        return every if self.score_all and epoch is not None else self.talk.spoken

    def row(self, index: int, epoch: int | None) -> tuple[Int64s, Int64s]:
        """The tokens before the utterances, and the utterances, each after its speaker's mark."""
        talk = self.talk
        counts = [talk.sections, talk.sections * talk.section_words, talk.questions]
        drawn = raw(sum(counts) + talk.questions * talk.answer_words, DIALOGUE, self.split, epoch, index)
        topic, word, question, answer = np.split(drawn, np.cumsum(counts))
        first = (
            SPECIALS + talk.sections + talk.topic_words * below(topic, talk.topics)
        )  # word of each section
        names = SPECIALS + np.arange(talk.sections)
        text = first[:, None] + below(word, talk.topic_words).reshape(talk.sections, -1)
        sections = below(question, talk.sections)
        answers = first[sections][:, None] + below(answer, talk.topic_words).reshape(talk.questions, -1)
        speakers = np.tile(talk.words + np.array([1, 2]), (talk.questions, 1))
        utterances = np.concatenate(
            [speakers[:, :1], names[sections][:, None], speakers[:, 1:], answers], 1
        ).ravel()
        document = np.concatenate([names[:, None], text], 1).ravel()
        if not self.shown:
            return document[:0], utterances
        last = document[len(document) + 2 - self.shown :]
        return np.concatenate([[talk.words], last, [EOS_ID]]).astype(np.int64), utterances

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)`` and what follows each; -1 where it does not count."""
        rows = [self.row(int(i), epoch) for i in indices]
        return lay_out(rows, self.talk.words, PAD_ID, self.score_all and epoch is not None)


class GeneratedDialogueData(Marked, GeneratedData[GeneratedDialogue]):
    """:class:`GeneratedDialogue`, read as :class:`~repro.data.sets.dialogue.dialogue_data.DialogueData`.

    Conversations are new in each epoch.

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

    Raises:
        UserError: a number out of range.
    """

    store_name = "generated-dialogue"

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
        self.table = GeneratedDialogue("train", document, window, talk, score_all)
        self.vocab_size = self.input_size = self.n_classes = talk.words + len(MARKS)
        self.seq_len, self.score_all, self.n_targets = window, score_all, talk.spoken

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """Scored targets of some conversations, ``(B,)``."""
        return np.full(len(indices), self.table.targets_of(epoch), np.int64)

    @property
    def ends(self) -> Ends:
        """Symbols that no word is made of."""
        return Ends(PAD_ID, BOS_ID, EOS_ID)

    def words(self, ids: Sequence[int]) -> str:
        """Two syllables for each id."""
        pairs = (divmod(i, len(SYLLABLES)) for i in ids)
        return " ".join(SYLLABLES[first] + SYLLABLES[second] for first, second in pairs)
