"""Sentences and their trees, as pairs of a sentence and a row of symbols."""

from repro.data.sets.translation.translation_data import TranslationData
from repro.data.sets.treebank.treebanks import BRACKETS, PARTS, TREES, WORDS


class ParsingData(TranslationData):
    """Batches of sentences and their linearised trees from a prepared store, batched as translations are.

    Args:
        store: ``wsj-trees``, or with a variant, ``grammar-trees/bpe460-n2000``.
        vocab_size: size of the one vocabulary: specials, a symbol for each bracket, subwords of words.
        batch_tokens: slots of the global batch on its longer side, padding counted.
        max_length: longer pairs (subwords of the sentence or symbols of the tree, eos counted) are left out in
            training, and refused as input to parse; evaluation uses every pair.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.
        eval_batch_tokens: slots of an evaluation batch on its longer side.

    Attributes:
        public: whether sentences may appear in records; not those of a licensed treebank.
    """

    parts = PARTS
    content = "sentences and their trees"

    def __init__(
        self,
        store: str,
        vocab_size: int,
        batch_tokens: int,
        max_length: int = 512,
        seed: int = 0,
        num_workers: int = 0,
        eval_batch_tokens: int = 4096,
    ) -> None:
        super().__init__(
            store,
            vocab_size,
            batch_tokens,
            max_length,
            source_language=WORDS,
            target_language=BRACKETS,
            seed=seed,
            num_workers=num_workers,
            eval_batch_tokens=eval_batch_tokens,
        )

    def references(self, split: str) -> list[str]:
        """The right trees of a split that is evaluated, with their parts of speech, a line each."""
        return self.store.lines(split, TREES)

    def targets(self, split: str) -> list[str]:
        """The rows of symbols that are predicted, a line each."""
        return self.store.lines(split, BRACKETS)

    @property
    def public(self) -> bool:
        """Whether sentences may appear in records."""
        return bool(self.store.manifest.source["kind"] == "generated")
