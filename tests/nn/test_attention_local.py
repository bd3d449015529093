"""Attention in chunks of the sequence; the laws are in test_laws.py."""

import pytest
import torch

from repro.nn import FullAttention, Layout, LocalAttention
from repro.nn.mixer import nbytes, reset_rows
from tests.nn import reference_lsh
from tests.nn.mixers import D_MODEL, difference, feed, randomise


def make(**options: int) -> LocalAttention:
    torch.manual_seed(0)
    mixer = LocalAttention(D_MODEL, 3, **options)  # type: ignore[arg-type]
    randomise(mixer)
    return mixer.double()


def test_one_chunk_is_full_attention() -> None:
    mixer, full = make(chunk=32), FullAttention(D_MODEL, 3, bias=False).double()
    full.load_state_dict(mixer.state_dict())
    x = torch.randn(2, 20, D_MODEL, dtype=torch.float64)
    for causal in (True, False):
        layout = Layout(causal)
        assert difference(mixer(x, None, layout).y, full(x, None, layout).y) < 1e-12
    cut = make(chunk=8)
    cut.load_state_dict(full.state_dict())
    assert difference(cut(x, None, Layout(True)).y, full(x, None, Layout(True)).y) > 1e-2


@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 0), (1, 1), (0, 2)])
@pytest.mark.parametrize("causal", [True, False])
def test_so_many_chunks_are_seen(causal: bool, before: int, after: int) -> None:
    mixer = make(chunk=4, before=before, after=after)
    x = torch.randn(2, 18, D_MODEL, dtype=torch.float64)
    lengths = torch.tensor([18, 9])
    for given in (None, lengths):
        y = mixer(x, None, Layout(causal, lengths=given)).y
        wanted = reference_lsh.local(mixer, x, causal, given)
        assert difference(y[0], wanted[0]) < 1e-12
        assert difference(y[1, :9], wanted[1, :9]) < 1e-12
        assert y.isfinite().all()


def test_a_ring_does_not_grow_and_forgets_what_is_out_of_sight() -> None:
    mixer = make(chunk=4, before=1)
    rows = [torch.randn(n, D_MODEL, dtype=torch.float64) for n in (50, 43)]
    with torch.no_grad():
        wanted = [mixer(row[None], None, Layout(True)).y[0] for row in rows]
        state = mixer.init_state(2, capacity=1000)
        size = nbytes(state)
        assert state["slots"]["k"].shape[1] == 8
        takes = [[20, 3]] + [[1, 1]] * 25 + [[5, 15]]
        got, state = feed(mixer, rows, takes, state)
    assert nbytes(state) == size
    for y, whole in zip(got, wanted, strict=True):
        assert difference(y, whole) < 1e-12


@torch.no_grad()
def test_a_row_that_is_reset_starts_anew() -> None:
    mixer = make(chunk=4)
    x = torch.randn(2, 9, D_MODEL, dtype=torch.float64)
    state = mixer(x, mixer.init_state(2, 20), Layout(True)).state
    state = reset_rows(state, torch.tensor([False, True]))
    y = mixer(x[:, :1], state, Layout(True)).y
    alone = mixer(x[1:, :1], None, Layout(True)).y
    assert difference(y[1], alone[0]) < 1e-12
    assert difference(y[0], mixer(x[:1, :1], None, Layout(True)).y[0]) > 1e-2


def test_bad_sizes_are_refused() -> None:
    for options in ({"chunk": 0}, {"before": -1}, {"after": -1}):
        with pytest.raises(ValueError, match="local attention needs chunk at least 1"):
            LocalAttention(D_MODEL, 3, **options)  # type: ignore[arg-type]
