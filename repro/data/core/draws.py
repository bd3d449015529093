"""Random numbers for data, the same on any machine and in any version of NumPy (whose own distributions change)."""

from typing import Any

import numpy as np

Raw = np.ndarray[Any, np.dtype[np.uint64]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]


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
