"""Text for language models, from a prepared store."""

from repro.data.core.draws import Int64s
from repro.data.core.segments import Array
from repro.data.core.store_datamodule import TokenStoreDataModule
from repro.data.core.stream_data import Stage, StreamData
from repro.data.core.streams import OrderName
from repro.data.registry import prepare_command
from repro.data.store.store import Store
from repro.errors import UserError

__all__ = ["Stage", "StreamData", "TextData"]
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

    def check(self, store: Store) -> None:
        """Refuses a store of sentence pairs.

        Raises:
            UserError: it holds no text for language models.
        """
        if store.manifest.parts != [TEXT]:
            parts = ", ".join(store.manifest.parts)
            raise UserError(f"store {store.name} holds {parts}, not text for a language model")

    def tokens(self, split: str) -> Array:
        """All tokens of a split, ``(N,)``, memory-mapped."""
        return self.store.tokens(split, TEXT)

    def sentences(self, split: str) -> Int64s | None:
        """First tokens of sentences, if the store has them."""
        return self.store.offsets(split, TEXT) if self.store.has_offsets(split, TEXT) else None

    def documents(self, split: str) -> Int64s:
        """The first token of each document of a split, and the end of the last, ``(N + 1,)``.

        Raises:
            UserError: the store does not have them.
        """
        store = self.store
        if not store.has_offsets(split, TEXT, "documents"):
            raise UserError(
                f"store {store.name} does not say where documents begin. If its text has documents, an older version "
                f"made it: delete {store.path} and make it again: "
                f"`{prepare_command(store.manifest.name, store.manifest.variant)}`"
            )
        return store.offsets(split, TEXT, "documents")
