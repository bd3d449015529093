"""Shares of a global batch: every row once over ranks and micro-batches."""

from itertools import chain

import numpy as np
import pytest

from repro.data.core.shares import Share
from repro.errors import UserError


def test_rows_by_hand() -> None:
    share = Share(rank=1, world=2, micro_batches=3)
    assert np.arange(12)[share.examples(12, 1)].tolist() == [4, 10]
    assert share.streams(12, 1).tolist() == [3, 9]
    assert share.streams(12, 1).dtype == np.int64
    assert Share().streams(4, 0).tolist() == np.arange(4)[Share().examples(4, 0)].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_every_row_comes_up_once(world: int, micro_batches: int) -> None:
    shares = [
        (Share(rank, world, micro_batches), micro_batch)
        for rank in range(world)
        for micro_batch in range(micro_batches)
    ]
    for rows in (12, 13, 2):
        assert sorted(chain(*(share.streams(rows, micro_batch) for share, micro_batch in shares))) == [
            *range(rows)
        ]
        taken = [np.arange(rows)[share.examples(rows, micro_batch)] for share, micro_batch in shares]
        assert sorted(chain(*taken)) == [*range(rows)]


def test_interleaved_micro_batches_are_the_streams_of_a_rank() -> None:
    mine = [Share(1, 2, 3).streams(12, micro_batch) for micro_batch in range(3)]
    assert np.stack(mine, axis=1).ravel().tolist() == [1, 3, 5, 7, 9, 11]


@pytest.mark.parametrize(("world", "micro_batches"), [(1, 1), (3, 2), (1, 12), (12, 1)])
def test_even_shares_are_accepted(world: int, micro_batches: int) -> None:
    Share(0, world, micro_batches).check_even(12, "batch_size 12")


@pytest.mark.parametrize(("world", "micro_batches"), [(5, 1), (1, 5), (3, 3), (13, 1), (4, 2)])
def test_shares_that_do_not_come_out_even_are_refused(world: int, micro_batches: int) -> None:
    with pytest.raises(UserError, match=rf"batch_size 12.*{world}.*{micro_batches}.*1, 2, 3, 4, 6, 12$"):
        Share(0, world, micro_batches).check_even(12, "batch_size 12")
