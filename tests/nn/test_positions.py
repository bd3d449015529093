"""Input positions: the paper's table, learned tables, added and concatenated."""

from functools import partial

import pytest
import torch

from repro.nn import (
    Added,
    Concatenated,
    LayerPositions,
    Layout,
    LearnedPositions,
    NoPositions,
    SequenceMixer,
    SinusoidalPositions,
    SplitSinusoids,
)
from repro.nn.positions.positions import leading, longest_window, restart_each, sinusoids, split_from_two
from tests.nn import reference, reference_infused


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


@pytest.mark.parametrize("width", [4, 12, 64])
@pytest.mark.parametrize("first", [0, 2, 7])
def test_split_sinusoids_equal_the_formula(width: int, first: int) -> None:
    where = torch.tensor([[3, 4], [0, 900]])
    got = SplitSinusoids(width, first)(where, torch.float64)
    expected = reference_infused.split_sinusoids(901, width, first)[where]
    assert torch.allclose(got, expected, rtol=0, atol=1e-12)
    rough = SplitSinusoids(width, first)(where, torch.bfloat16)
    assert rough.dtype == torch.bfloat16
    assert torch.allclose(rough.double(), expected, rtol=0, atol=5e-3)


def test_split_sinusoids_fit_where_tables_do() -> None:
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    got = Added(8, table=split_from_two)(x, torch.arange(5))
    assert torch.allclose(got, x + reference_infused.split_sinusoids(5, 8, first=2))


@pytest.mark.parametrize(("width", "first"), [(7, 0), (2, 0), (0, 0), (8, -1)])
def test_split_sinusoids_that_cannot_be_are_refused(width: int, first: int) -> None:
    with pytest.raises(ValueError, match=r"not (7|2|0|-1)"):
        SplitSinusoids(width, first)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_leading_rows_equal_the_table_of_any_kind(count: int) -> None:
    like = torch.zeros((), dtype=torch.float64)
    learned = LearnedPositions(8, 200).double()
    for table in (SplitSinusoids(8), SplitSinusoids(8, 2), SinusoidalPositions(8), learned):
        rows = leading(table, count, like)
        assert rows.dtype == torch.float64
        assert torch.equal(rows, table(torch.arange(count), torch.float64))
    assert leading(SplitSinusoids(8), 3, like.float()).dtype == torch.float32
    assert leading(learned, 5, like).requires_grad


@pytest.mark.parametrize("where", [torch.arange(5), torch.arange(10).view(2, 5).flip(0)])
def test_layer_positions_are_a_mixer_whose_output_are_vectors_of_positions(where: torch.Tensor) -> None:
    mixer = LayerPositions(8, max_length=10)
    assert isinstance(mixer, SequenceMixer)
    assert mixer.init_state(2, 5) is None
    x = torch.randn(2, 5, 8)
    y, state, aux, _ = mixer(x, None, Layout(True, positions=where))
    assert (state, aux) == (None, None)
    assert torch.equal(y, mixer.table.table.weight[where].expand(2, 5, 8))
    y.sum().backward()
    used = torch.bincount(where.expand(2, 5).flatten(), minlength=10).float()
    assert torch.equal(mixer.table.table.weight.grad, used[:, None].expand(10, 8))


def test_layer_positions_need_positions_that_exist() -> None:
    mixer, x = LayerPositions(8, max_length=4), torch.zeros(1, 5, 8)
    with pytest.raises(IndexError):
        mixer(x, None, Layout(True, positions=torch.arange(5)))
    with pytest.raises(ValueError, match=r"layout\.positions"):
        mixer(x, None, Layout(True))


def test_added_positions_may_begin_anew_with_each_call() -> None:
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    going_on, anew = Added(8), Added(8, restart=True)
    later = torch.tensor([[5, 6, 7], [0, 1, 2]])
    assert torch.equal(anew(x, later), going_on(x, torch.arange(3)))
    assert torch.equal(anew(x, later)[1], going_on(x, later)[1])
    assert not torch.equal(anew(x, later)[0], going_on(x, later)[0])


def test_positions_that_begin_anew_with_each_block_are_read_token_by_token() -> None:
    anew = Added(8, partial(LearnedPositions, max_length=3), restart=True)
    x = torch.randn(2, 6, 8)
    blocks = torch.cat([anew(part, torch.arange(3)) for part in x.split(3, 1)], 1)
    assert longest_window(anew) == 3
    restart_each(anew, 3)
    assert longest_window(anew) is None
    tokens = [anew(x[:, t : t + 1], torch.tensor([t])) for t in range(6)]
    assert torch.equal(torch.cat(tokens, 1), blocks)
