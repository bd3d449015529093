"""``results/sizes.json`` holds every row with a printed count, and what is counted now."""

import pytest

from repro.evidence.official import read_sizes
from repro.experiment.parameters import unit_of
from tests.parity.sizes import PublishedRows, compare, explanation, printed

CHEAP = ("frozen-pretrained-transformer/bit-xor@random", "shortformer/tbc@l1024", "transformer-xl/enwik8-12l")


@pytest.fixture(scope="module")
def rows() -> list[PublishedRows]:
    return printed()


def test_every_row_with_a_printed_count_has_a_size(rows):
    assert [PublishedRows(s.paper, s.experiment, s.table, s.row, s.published) for s in read_sizes()] == rows


def test_the_file_agrees_with_itself_and_explains_every_difference():
    for size in read_sizes():
        assert size.rounded_to == unit_of(size.published)
        assert size.agrees == (abs(size.ours - size.published) <= size.rounded_to // 2)
        row = PublishedRows(size.paper, size.experiment, size.table, size.row, size.published)
        assert size.explanation == (None if size.agrees else explanation(row))
        assert size.agrees or size.explanation, f"{size.experiment}: {size.ours} beside {size.published}"


@pytest.mark.parametrize("experiment", CHEAP)
def test_cheap_rows_are_counted_again(rows, experiment):
    sizes = [size for size in read_sizes() if size.experiment == experiment]
    assert sizes
    assert [compare(row) for row in rows if row.experiment == experiment] == sizes
