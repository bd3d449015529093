"""Input positions: the paper's table, learned tables, added and concatenated."""

import pytest
import torch

from repro.nn import Added, Concatenated, LearnedPositions, NoPositions, SinusoidalPositions
from repro.nn.positions import sinusoids
from tests.nn import reference


@pytest.mark.parametrize("width", [2, 12, 64])
def test_sinusoids_equal_the_formula(width: int) -> None:
    got = sinusoids(torch.arange(63), width, torch.float64)
    assert torch.allclose(got, reference.sinusoids(63, width), rtol=0, atol=1e-12)


def test_positions_need_not_start_at_zero_nor_be_the_same_for_all_rows() -> None:
    where = torch.tensor([[3, 4], [900, 901]])
    got = SinusoidalPositions(8)(where, torch.float64)
    assert torch.allclose(got, reference.sinusoids(902, 8)[where], rtol=0, atol=1e-12)


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"even width, not 7"):
        SinusoidalPositions(7)


def test_half_precision_still_counts_far() -> None:
    where = torch.tensor([4999])  # not a number in bfloat16
    got = SinusoidalPositions(8)(where, torch.bfloat16)
    assert got.dtype == torch.bfloat16
    assert torch.allclose(got.double(), reference.sinusoids(5000, 8)[where], rtol=0, atol=5e-3)


def test_learned_positions_end_somewhere() -> None:
    table = LearnedPositions(4, max_length=5)
    assert torch.equal(table(torch.tensor([[1, 4]]), torch.float32), table.table.weight[[1, 4]][None])
    with pytest.raises(IndexError):
        table(torch.tensor([5]), torch.float32)


@pytest.mark.parametrize("where", [torch.arange(5), torch.arange(10).view(2, 5)])
def test_added(where: torch.Tensor) -> None:
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    positions = Added(8)
    assert positions.token_width == 8
    assert torch.allclose(positions(x, where), x + reference.sinusoids(10, 8)[where])


@pytest.mark.parametrize("where", [torch.arange(5), torch.arange(10).view(2, 5)])
def test_concatenated(where: torch.Tensor) -> None:
    positions = Concatenated(8, width=2)
    assert positions.token_width == 6
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    y = positions(x, where)
    assert y.shape == (2, 5, 8)
    assert torch.equal(y[..., :6], x)
    assert torch.allclose(y[..., 6:], reference.sinusoids(10, 2)[where].expand(2, 5, 2))


@pytest.mark.parametrize("width", [0, 8, 9])
def test_a_position_part_that_leaves_no_room_is_refused(width: int) -> None:
    with pytest.raises(ValueError, match=rf"d_model 8, not {width}"):
        Concatenated(8, width=width)


def test_added_takes_a_learned_table() -> None:
    positions = Added(8, table=lambda width: LearnedPositions(width, 3))
    x = torch.zeros(1, 3, 8)
    assert torch.equal(positions(x, torch.arange(3))[0], positions.table.table.weight)
    assert torch.equal(NoPositions(8)(x, torch.arange(3)), x)
