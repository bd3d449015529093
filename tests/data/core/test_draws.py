"""Random numbers for data. Records name a seed: it must mean the same numbers on any machine, in any version."""

import numpy as np
import pytest

from repro.data.core.draws import drawn, order_of, shuffled, stream


@pytest.mark.parametrize(
    ("key", "order"),
    [((0, 0), [3, 2, 1, 8, 6, 0, 7, 4, 5, 9]), ((3, 1), [0, 6, 2, 1, 3, 7, 4, 9, 8, 5])],
)
def test_an_order_is_pinned(key: tuple[int, ...], order: list[int]) -> None:
    assert shuffled(10, *key).tolist() == order
    assert shuffled(10, *key).dtype == np.int64


def test_a_stream_is_pinned_and_goes_on() -> None:
    numbers = [4671694712983073299, 7511462375112314811, 6297120420936762856]
    assert stream(3, 1).random_raw(3).tolist() == numbers
    source = stream(3, 1)
    assert [int(source.random_raw()) for _ in numbers] == numbers


def test_every_part_of_a_key_counts() -> None:
    keys = [(3, 1), (1, 3), (3, 2), (3, 1, 1), (3,)]
    assert len({str(shuffled(10, *key)) for key in keys}) == len(keys)


def test_equal_numbers_keep_their_order() -> None:
    numbers = np.array([2**64 - 1, 2] * 100, np.uint64)
    assert order_of(numbers).tolist() == [*range(1, 200, 2), *range(0, 200, 2)]
    assert shuffled(0, 5).tolist() == []


def test_numbers_drawn_with_replacement_are_pinned_and_uniform() -> None:
    assert drawn(100, 5, 3, 1).tolist() == [99, 11, 56, 55, 9]
    numbers = drawn(7, 70_000, 5)
    assert numbers.dtype == np.int64
    counts = np.bincount(numbers, minlength=7)
    assert len(counts) == 7
    assert abs(counts - 10_000).max() < 400
