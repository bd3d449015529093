"""Generated streams with known answers. Functions of (seed, split) alone, the same on any machine."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from repro.data.core.draws import Int64s, digest_of, stream
from repro.data.core.segments import Array, Bools
from repro.data.core.stream_data import Stage, StreamData
from repro.errors import UserError, at_least

GENERATOR_VERSION = 1
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Echo:
    """A stream in which every other symbol repeats the one ``lag`` places before it; the others are random.

    Args:
        symbols: how many there are.
        lag: odd, so that an answer repeats a random symbol and never another answer.

    Raises:
        UserError: fewer than two symbols, or an even lag.
    """

    symbols: int = 16
    lag: int = 25

    def __post_init__(self) -> None:
        at_least(2, symbols=self.symbols)
        if self.lag < 1 or self.lag % 2 == 0:
            raise UserError(f"lag must be odd and at least 1, not {self.lag}: answers repeat random symbols")

    def tokens(self, split: str, n: int) -> Array:
        """The first ``n`` tokens of a split, ``(n,)``; splits share nothing."""
        numbers = stream(GENERATOR_VERSION, SPLITS.index(split), self.symbols, self.lag)
        drawn = numbers.random_raw(n) >> np.uint64(11)
        tokens = (drawn % np.uint64(self.symbols)).astype(np.uint16)
        answers = self.answers(n)
        tokens[answers] = tokens[np.flatnonzero(answers) - self.lag]
        return tokens

    def answers(self, n: int) -> Bools:
        """Which of ``n`` tokens repeat an earlier one: those at odd positions that have one so far back."""
        places: Int64s = np.arange(n, dtype=np.int64)
        return (places % 2 == 1) & (places >= self.lag)


class EchoData(StreamData):
    """:class:`Echo` in streams; only the answers are scored. Chance is one in ``symbols``.

    With ``lag`` above ``seq_len`` no answer lies in its own segment: without a memory nothing can be learned.

    Args:
        vocab_size: symbols.
        lag: distance of an answer, odd.
        train_tokens: length of the training split.
        eval_tokens: length of the validation split and of the test split.
        batch_tokens: targets of the global batch.
        seq_len: targets of a row, T, after all stages.
        stages: the first epochs, at other lengths.
        context: leading targets of every row of training that are read, but do not count; windows then overlap.
        seed: unused by streams; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.
    """

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
        self.store_name = "echo"
        self.vocab_size = vocab_size
        self.echo = Echo(vocab_size, lag)
        self.sizes = {"train": train_tokens, "val": eval_tokens, "test": eval_tokens}

    def tokens(self, split: str) -> Array:
        """All tokens of a split, ``(N,)``."""
        return self.echo.tokens(split, self.sizes[split])

    def scored(self, split: str) -> Bools:
        """The answers."""
        return self.echo.answers(self.sizes[split])

    @cached_property
    def manifest_sha256(self) -> str:
        """SHA-256 over the generator's version and settings, which determine the data."""
        spec = {
            "generator": GENERATOR_VERSION,
            "symbols": self.vocab_size,
            "lag": self.echo.lag,
            **self.sizes,
        }
        return digest_of(spec)
