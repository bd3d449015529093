"""Attention in chunks of the sequence; the laws are in test_laws.py."""

import pytest
import torch

from repro.nn import FullAttention, Layout, LocalAttention
from repro.nn.mixer import nbytes, reset_rows
from tests.nn import reference_lsh
from tests.nn.mixers import D_MODEL, difference, feed, gradients, randomise, valid


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
        expected = reference_lsh.local(mixer, x, causal, given)
        assert difference(y[0], expected[0]) < 1e-12
        assert difference(y[1, :9], expected[1, :9]) < 1e-12
        assert y.isfinite().all()


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1), (1, 1), (2, 2)])
@pytest.mark.parametrize("steps", [1, 7, 18, 63])
def test_chunks_wrap_around_at_the_ends_of_a_row(before: int, after: int, steps: int) -> None:
    """Rows of 1 to 16 chunks, with a last chunk that is not full; a chunk that is met twice counts twice."""
    mixer = make(chunk=4, before=before, after=after, wrap=True)
    x = torch.randn(4, steps, D_MODEL, dtype=torch.float64, requires_grad=True)
    for lengths in (None, torch.tensor([steps, 1, -(-steps // 2), 0])):
        y = mixer(x, None, Layout(False, lengths=lengths)).y
        assert y.isfinite().all()
        y = y if lengths is None else y.where(valid(lengths, steps)[..., None], 0.0)
        target = reference_lsh.local(mixer, x, False, lengths)
        assert difference(y, target) < 1e-12
        weights = torch.randn(y.shape, dtype=y.dtype)
        expected = gradients((target * weights).sum(), [x], mixer)
        for key, grad in gradients((y * weights).sum(), [x], mixer).items():
            assert difference(grad, expected[key]) < 1e-12, key
    plain = make(chunk=4, before=before, after=after)
    changed = difference(plain(x, None, Layout(False)).y, mixer(x, None, Layout(False)).y)
    assert (changed > 1e-3) is (steps > 4)


def test_wrapping_is_nothing_to_causal_layouts_and_has_no_state_in_others() -> None:
    mixer, plain = make(chunk=4, after=1, wrap=True), make(chunk=4, after=1)
    x = torch.randn(2, 18, D_MODEL, dtype=torch.float64)
    assert torch.equal(mixer(x, None, Layout(True)).y, plain(x, None, Layout(True)).y)
    with pytest.raises(ValueError, match="wrap: true has no state"):
        mixer(x, mixer.init_state(2), Layout(False))


def test_a_ring_does_not_grow_and_forgets_what_is_out_of_sight() -> None:
    mixer = make(chunk=4, before=1)
    rows = [torch.randn(n, D_MODEL, dtype=torch.float64) for n in (50, 43)]
    with torch.no_grad():
        expected = [mixer(row[None], None, Layout(True)).y[0] for row in rows]
        state = mixer.init_state(2, capacity=1000)
        size = nbytes(state)
        assert state["slots"]["k"].shape[1] == 8
        takes = [[20, 3]] + [[1, 1]] * 25 + [[5, 15]]
        got, state = feed(mixer, rows, takes, state)
    assert nbytes(state) == size
    for y, whole in zip(got, expected, strict=True):
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
