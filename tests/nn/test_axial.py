"""Axial positions: cells of a grid, rows first."""

import pytest
import torch
from torch import nn

from repro.nn import Added, AxialPositions, LearnedPositions
from repro.nn.init import glorot, normal_002
from repro.nn.positions.positions import idle_parameters, longest_window


def test_a_position_is_the_vectors_of_its_cell_side_by_side() -> None:
    table = AxialPositions(9, [2, 3, 4], [2, 3, 4]).double()
    got = table(torch.arange(24).view(2, 12), torch.float64)
    assert got.shape == (2, 12, 9)
    for p, vector in enumerate(got.flatten(0, 1)):
        i, j, k = p // 12, p // 4 % 3, p % 4
        assert torch.equal(vector, torch.cat([table.tables[0][i], table.tables[1][j], table.tables[2][k]]))
    assert table(torch.arange(3), torch.bfloat16).dtype == torch.bfloat16


def test_each_vector_gets_the_gradient_of_all_its_cells() -> None:
    table = AxialPositions(3, [2, 4], [1, 2])
    table(torch.arange(6), torch.float32).sum().backward()
    assert table.tables[0].grad.flatten().tolist() == [4.0, 2.0]
    assert table.tables[1].grad[:, 0].tolist() == [2.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize("where", [[24], [-1], [3, 100]])
def test_positions_outside_the_grid_are_refused(where: list[int]) -> None:
    with pytest.raises(IndexError):
        AxialPositions(9, [2, 3, 4], [2, 3, 4])(torch.tensor(where), torch.float32)


REFUSED = [
    ([2, 3], [4, 4], r"add up to 8, not 9"),
    ([2, 3], [9], r"not \[2, 3\] and \[9\]"),
    ([], [], r"not \[\] and \[\]"),
    ([2, 0], [4, 5], r"not \[2, 0\]"),
    ([2, 3], [9, 0], r"and \[9, 0\]"),
]


@pytest.mark.parametrize(("shape", "widths", "words"), REFUSED)
def test_grids_that_cannot_be_are_refused(shape: list[int], widths: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AxialPositions(9, shape, widths)


def test_they_begin_as_normal_numbers_and_stay_so() -> None:
    torch.manual_seed(0)
    net = Added(400, table=lambda width: AxialPositions(width, [60, 50], [300, 100]))
    before = [table.clone() for table in net.table.tables]
    for table in before:
        assert abs(table.mean()) < 0.03
        assert abs(table.std() - 1) < 0.03
    for init in (glorot, normal_002):
        init(net)
        assert all(torch.equal(a, b) for a, b in zip(before, net.table.tables, strict=True))


def test_what_is_never_reached_is_counted() -> None:
    table = AxialPositions(9, [2, 3, 4], [2, 3, 4])
    for length in range(1, 25):
        cells = {(p // 12, p // 4 % 3, p % 4) for p in range(length)}
        reached = sum(len({cell[axis] for cell in cells}) * width for axis, width in enumerate([2, 3, 4]))
        assert idle_parameters(table, length) == 2 * 2 + 3 * 3 + 4 * 4 - reached, length
    table.tables[0].requires_grad_(False)
    assert idle_parameters(table, 4) == 3 * 2


def test_the_shortest_table_limits_a_window() -> None:
    both = nn.ModuleList([AxialPositions(9, [2, 3, 4], [2, 3, 4]), LearnedPositions(4, 30)])
    assert longest_window(both) == 24
    assert longest_window(both[1]) == 30
    assert idle_parameters(both[1], 28) == 2 * 4
    assert longest_window(nn.Linear(1, 1)) is None


def test_it_takes_no_memory_on_the_meta_device() -> None:
    with torch.device("meta"):
        table = AxialPositions(1024, [128, 512], [256, 768])
    assert sum(p.numel() for p in table.parameters()) == 128 * 256 + 512 * 768
    assert all(p.is_meta for p in table.parameters())
