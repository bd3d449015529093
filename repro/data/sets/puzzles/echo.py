"""Generated streams with known answers. Functions of (seed, split) alone, the same on any machine."""

from functools import cached_property

import numpy as np

from repro.data.core.draws import digest_of, stream
from repro.data.core.generated import SPLITS
from repro.data.core.segments import Array, Bools
from repro.data.core.stream_data import Stage, StreamData
from repro.errors import UserError, at_least

GENERATOR_VERSION = 1


class EchoData(StreamData):
    """A stream in which every other symbol repeats the one ``lag`` places before it; the others are random.

    Only the answers are scored. Chance is one in ``vocab_size``.

    With ``lag`` above ``seq_len`` no answer lies in its own segment: without a memory nothing can be learned.

    Args:
        vocab_size: symbols.
        lag: distance of an answer, odd, so that it repeats a random symbol and never another answer.
        train_tokens: length of the training split.
        eval_tokens: length of the validation split and of the test split.
        batch_tokens: targets of the global batch.
        seq_len: targets of a row, T, after all stages.
        stages: the first epochs, at other lengths.
        context: leading targets of every row of training that are read, but do not count; windows then overlap.
        seed: unused by streams; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: fewer than two symbols, or an even lag.
    """

    store_name = "echo"
    vocab_size: int

    def __init__(
        self,
        vocab_size: int,
        batch_tokens: int,
        seq_len: int,
        lag: int = 25,
        train_tokens: int = 400_000,
        eval_tokens: int = 20_000,
        stages: list[Stage] | None = None,
        context: int = 0,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_tokens, seq_len, "stream", stages, context, seed=seed, num_workers=num_workers)
        at_least(2, vocab_size=vocab_size)
        if lag < 1 or lag % 2 == 0:
            raise UserError(f"lag must be odd and at least 1, not {lag}: answers repeat random symbols")
        self.vocab_size = vocab_size
        self.lag = lag
        self.sizes = {"train": train_tokens, "val": eval_tokens, "test": eval_tokens}

    def tokens(self, split: str) -> Array:
        """All tokens of a split, ``(N,)``; splits share nothing."""
        numbers = stream(GENERATOR_VERSION, SPLITS.index(split), self.vocab_size, self.lag)
        drawn = numbers.random_raw(self.sizes[split]) >> np.uint64(11)
        tokens = (drawn % np.uint64(self.vocab_size)).astype(np.uint16)
        answers = np.flatnonzero(self.scored(split))
        tokens[answers] = tokens[answers - self.lag]
        return tokens

    def scored(self, split: str) -> Bools:
        """The answers: the symbols at odd places that have one so far back, ``(N,)``."""
        places = np.arange(self.sizes[split], dtype=np.int64)
        return (places % 2 == 1) & (places >= self.lag)

    @cached_property
    def manifest_sha256(self) -> str:
        """SHA-256 over the generator's version and settings, which determine the data."""
        settings = {"generator": GENERATOR_VERSION, "symbols": self.vocab_size, "lag": self.lag}
        return digest_of({**settings, **self.sizes})
