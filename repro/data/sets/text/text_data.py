"""Text for language models, from a prepared store."""

from collections.abc import Callable
from functools import partial

from repro.data.core.draws import Int64s
from repro.data.core.orders import OrderName
from repro.data.core.segments import Array
from repro.data.core.stream_data import Stage, StreamData
from repro.data.store_data import TokenStoreDataModule

TEXT = "text"


class TextData(TokenStoreDataModule, StreamData):
    """Text from a prepared store.

    Args:
        store: source and level: ``wikitext-103/words``, ``wikitext-2/bytes``, ``enwik8/bytes-nonl``.
        vocab_size: symbols of the store, stated so that a recipe and its network agree.
        batch_tokens: targets of the global batch.
        seq_len: targets of a row, T, after all stages.
        order: ``stream`` (memory may be carried), ``shuffled`` (blocks), ``random`` (windows drawn with replacement),
            ``sentences`` (One Billion Word) or ``documents``.
        stages: the first epochs, at other lengths.
        context: leading targets of every row of training that are read, but do not count. Windows then overlap, so
            that every target counts once an epoch; only with order ``stream`` and without stages.
        shards: an epoch is one of so many equal parts of the training text, in turn.
        val_split: name of the validation split.
        test_split: name of the test split.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.
    """

    parts = (TEXT,)
    content = "text for a language model"

    def __init__(
        self,
        store: str,
        vocab_size: int,
        batch_tokens: int,
        seq_len: int,
        order: OrderName = "stream",
        stages: list[Stage] | None = None,
        context: int = 0,
        shards: int = 1,
        val_split: str = "val",
        test_split: str = "test",
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_tokens, seq_len, order, stages, context, shards, seed, num_workers)
        self.store_name, _, self.variant = store.partition("/")
        self.vocab_size = vocab_size
        self.val_split = val_split
        self.test_split = test_split

    def tokens(self, split: str) -> Array:
        """All tokens of a split, ``(N,)``, memory-mapped."""
        return self.store.values(split, TEXT)

    def source(self, split: str) -> Callable[[], Array]:
        """Opens the tokens of a split, in a worker process anew."""
        return partial(self.store.values, split, TEXT)

    def sentences(self, split: str) -> Int64s | None:
        """First tokens of sentences, if the store has them; the first row is the mark before the first sentence."""
        return self.store.offsets(split, TEXT)[1:] if self.store.manifest.row == "sentence" else None

    def documents(self, split: str) -> Int64s:
        """The first token of each document of a split, and the end of the last, ``(N + 1,)``.

        Raises:
            UserError: the text has none.
        """
        if self.store.manifest.row != "document":
            return super().documents(split)
        return self.store.offsets(split, TEXT)
