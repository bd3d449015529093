"""What datamodules over a prepared store share: opening it, checking it, its tokeniser."""

from functools import cached_property

from repro.data import sources
from repro.data.manifest import Manifest
from repro.data.store import Store, open_store, verify
from repro.data.tokenizers import AnyTokenizer, load_tokenizer
from repro.errors import UserError


class Stored:
    """Beside a LightningDataModule, whose hooks come from here.

    Attributes:
        store_name: of the source.
        variant: which of its stores; empty for the source's default.
        vocab_size: symbols, which must be the store's.
    """

    store_name: str
    variant: str
    vocab_size: int

    def prepare_data(self) -> None:
        """Makes the missing store of a generated source and checks every hash; downloads nothing."""
        sources.ensure_generated(self.store_name, self.variant)
        verify(self.store)

    def setup(self, stage: str | None = None) -> None:
        """Opens the store."""
        _ = self.store

    @cached_property
    def store(self) -> Store:
        """The opened store.

        Raises:
            UserError: it is missing, corrupt, of another vocabulary size, or holds something else.
        """
        source = sources.find_source(self.store_name)
        sources.require_loader(source)
        variant = self.variant or sources.default_variant(source)
        sources.check_variant(source, variant)
        store = open_store(self.store_name, variant)
        self.check(store)
        size = store.manifest.tokenizer["size"]
        if size != self.vocab_size:
            raise UserError(
                f"store {self.store_name}/{variant} has a vocabulary of {size}, not {self.vocab_size}"
            )
        return store

    def check(self, store: Store) -> None:
        """Refuses a store that does not hold what is needed, with a UserError."""

    @cached_property
    def tokenizer(self) -> AnyTokenizer:
        """What turned the text into tokens."""
        return load_tokenizer(self.store.tokenizer_path)

    @property
    def manifest(self) -> Manifest:
        return self.store.manifest

    @property
    def manifest_sha256(self) -> str:
        """SHA-256 of the store's manifest."""
        return self.store.manifest_sha256
