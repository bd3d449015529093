"""Base of datamodules over a prepared store: opens and checks it, and loads its tokeniser if it has one."""

from functools import cached_property
from typing import ClassVar

from repro.data.core.datamodule import DataModule
from repro.data.manifest import Manifest
from repro.data.prepare import ensure_generated, open_store
from repro.data.registry import find_data_set
from repro.data.store import Store, verify
from repro.data.tokenizers.loading import AnyTokenizer, load_tokenizer
from repro.errors import UserError


class StoreDataModule(DataModule):
    """Data from a prepared store; beside what says which data, as in ``SpeechData(StoreDataModule, ExampleData)``.

    Attributes:
        store_name: name of the data set.
        variant: which of its stores; empty for its default.
        parts: columns that the store must have; empty for any.
        content: what these columns are, for messages.
    """

    parts: ClassVar[tuple[str, ...]] = ()
    content: ClassVar[str] = ""

    def prepare_data(self) -> None:
        """Makes the missing store of a generated source and checks every hash; downloads nothing."""
        ensure_generated(self.store_name, self.variant)
        verify(self.store)

    def require_store(self) -> None:
        """Opens the store, unless a run generates it."""
        if not find_data_set(self.store_name).generated:
            _ = self.store

    def setup(self, stage: str | None = None) -> None:
        """Opens the store."""
        _ = self.store

    @cached_property
    def store(self) -> Store:
        """The opened store.

        Raises:
            UserError: it is missing, corrupt, or holds something else.
        """
        data_set = find_data_set(self.store_name)
        variant = self.variant or data_set.default_variant
        data_set.check_variant(variant)
        store = open_store(self.store_name, variant)
        if self.parts and tuple(store.manifest.parts) != self.parts:
            raise UserError(f"store {store.name} holds {', '.join(store.manifest.parts)}, not {self.content}")
        self.check(store)
        return store

    def check(self, store: Store) -> None:
        """Refuses a store that does not hold what is needed, with a UserError."""

    @property
    def manifest(self) -> Manifest:
        return self.store.manifest

    @property
    def manifest_sha256(self) -> str:
        """SHA-256 of the store's manifest."""
        return self.store.manifest_sha256


class TokenStoreDataModule(StoreDataModule):
    """Tokens from a prepared store, whose vocabulary must have ``vocab_size`` symbols.

    Attributes:
        added_symbols: symbols that no tokeniser knows, counted in ``vocab_size``.
    """

    added_symbols: ClassVar[int] = 0

    def check(self, store: Store) -> None:
        """Refuses a store with another vocabulary size."""
        size = store.manifest.tokenizer["size"] + self.added_symbols
        if size != self.vocab_size:
            raise UserError(f"store {store.name} has a vocabulary of {size}, not {self.vocab_size}")

    @cached_property
    def tokenizer(self) -> AnyTokenizer:
        """The tokeniser of the text."""
        return load_tokenizer(self.store.tokenizer_path)
