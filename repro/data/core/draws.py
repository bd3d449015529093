"""Random numbers for data, the same on any machine and in any version of NumPy (whose own distributions change)."""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import asdict
from itertools import count
from typing import Any, TypeVar

import numpy as np

Raw = np.ndarray[Any, np.dtype[np.uint64]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Item = TypeVar("Item")


def stream(*key: int) -> np.random.PCG64:
    """The stream of random numbers that belongs to a key; ``random_raw(n)`` gives its next n, 64 random bits each."""
    return np.random.PCG64(np.random.SeedSequence(key))


def shuffled(n: int, *key: int) -> Int64s:
    """A random order of ``n`` things, the same for the same key."""
    return order_of(stream(*key).random_raw(n))


def drawn(n: int, count: int, *key: int) -> Int64s:
    """``count`` numbers below ``n``, with replacement, the same for the same key."""
    return (stream(*key).random_raw(count) % np.uint64(n)).astype(np.int64)


def order_of(numbers: Raw) -> Int64s:
    """The order that sorts random numbers."""
    return np.argsort(numbers, kind="stable").astype(np.int64, copy=False)


def digest_of(facts: Mapping[str, Any]) -> str:
    """SHA-256 over the settings that determine generated data, dataclasses among them."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=asdict).encode()).hexdigest()


class HashedDraws:
    """Random choices from the hash of a label: the same in every Python, without a state to carry.

    Args:
        bits: random bits, of which each choice takes some.
    """

    def __init__(self, bits: bytes) -> None:
        self._bits = int.from_bytes(bits, "big")

    def below(self, n: int) -> int:
        """Draws a number from 0 to n-1."""
        self._bits, value = divmod(self._bits, n)
        return value

    def chance(self, percent: int) -> bool:
        """Draws True with a probability in per cent."""
        return self.below(100) < percent

    def one_of(self, choices: tuple[str, ...]) -> str:
        """Draws one of some choices."""
        return choices[self.below(len(choices))]


def split_of_text(text: str) -> str:
    """The one split in which a generated text may appear, by its hash: 80 % train, 10 % val, 10 % test."""
    place = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % 100
    return "train" if place < 80 else "val" if place < 90 else "test"


def first_of(
    make: Callable[[int, int], Item], good: Callable[[Item], bool], key: Callable[[Item], Hashable] | None
) -> Iterator[Item]:
    """An endless stream of generated items.

    Args:
        make: the item at some index, at some attempt.
        good: whether it is kept; else it is drawn again.
        key: items with one key come once; None keeps all.
    """
    distinct = set[Hashable]()
    for index in count():
        item = next(item for attempt in count() if good(item := make(index, attempt)))
        if key is None or key(item) not in distinct:
            distinct.add(None if key is None else key(item))
            yield item
