"""Infused attention beyond the laws: its memory's rule, cuts, states, and what decoding costs."""

from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn import FullAttention, InfusedAttention, Layout, LearnedPositions
from repro.nn.attention.infused import visible
from repro.nn.mixer import detach, leaves, reset_rows
from repro.nn.positions import positions
from repro.nn.settings import CallSettings, MemorySettings
from tests.nn.mixers import D_MODEL, difference, feed, gradients, randomise
from tests.nn.reference_infused import infused, remembered

MEM_LEN = 4
# Tokens of each call of one stream: blocks of L', single tokens, everything else.
CALLS = {
    "blocks": [4] * 5,
    "single tokens": [1] * 19,
    "a window, then single tokens": [4] + [1] * 13,
    "short blocks": [3] * 8,
    "long blocks": [6] * 4,
    "all sorts": [3, 2, 4, 1, 1, 13, 1, 2, 3, 3, 1, 7, 8, 1, 5, 1],
}
CAPACITIES = [None, 2 * MEM_LEN, 100]


def build(mem_len: int = MEM_LEN, **options: Any) -> InfusedAttention:
    torch.manual_seed(0)
    return randomise(InfusedAttention(D_MODEL, 3, mem_len=mem_len, **options).double().eval())  # type: ignore[return-value]


def randn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def expected(mixer: InfusedAttention, row: Tensor, counts: list[int]) -> Tensor:
    """Computes what a row's calls must return, by naive loops over what the rule lets each call see."""
    outputs, at = [], 0
    for n, (seen, _) in zip(counts, remembered(counts, mixer.memory.mem_len), strict=True):
        outputs.append(infused(mixer, row[None, at : at + n], True, None, [row[at - seen : at]])[0])
        at += n
    return torch.cat(outputs)


def run(mixer: InfusedAttention, x: Tensor, counts: list[int], state: Any) -> tuple[Tensor, Any]:
    outputs = []
    for part in x.split(counts, dim=1):
        y, state, *_ = mixer(part, state, Layout(True))
        outputs.append(y)
    return torch.cat(outputs, dim=1), state


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("capacity", CAPACITIES)
@torch.no_grad()
def test_every_call_sees_what_the_rule_says(calls: str, capacity: int | None) -> None:
    mixer, counts = build(), CALLS[calls]
    x = randn(2, sum(counts), D_MODEL)
    y, state = run(mixer, x, counts, mixer.init_state(2, capacity))
    assert difference(y, torch.stack([expected(mixer, row, counts) for row in x])) < 1e-12
    held = remembered(counts, MEM_LEN)[-1][1]
    assert state["length"].tolist() == [held, held]
    assert max(t.shape[1] for t in leaves(state) if t.dim() > 1) <= 2 * MEM_LEN
    if capacity is None:
        assert torch.equal(state["past"]["x"][:, :held], x[:, -held:])


def test_the_rule_itself() -> None:
    assert remembered([4, 4, 4], 4) == [(0, 4), (4, 4), (4, 4)]
    assert [seen for seen, _ in remembered([4] + [1] * 6, 4)] == [0, 4, 5, 6, 7, 4, 5]
    assert remembered([3, 3, 3, 3], 4) == [(0, 3), (3, 6), (4, 7), (4, 7)]


@torch.no_grad()
def test_blocks_equal_single_tokens_and_shorter_blocks_do_not() -> None:
    mixer = build()
    x = randn(2, 20, D_MODEL)
    blocks, _ = run(mixer, x, [4] * 5, mixer.init_state(2))
    for capacity in CAPACITIES:
        tokens, _ = run(mixer, x, [4] + [1] * 16, mixer.init_state(2, capacity))
        assert difference(tokens, blocks) < 1e-12
    shorter, _ = run(mixer, x, [2] * 10, mixer.init_state(2))
    assert difference(shorter[:, :8], blocks[:, :8]) < 1e-12
    whole = mixer(x, None, Layout(True)).y
    assert difference(whole[:, :8], blocks[:, :8]) < 1e-12
    assert difference(whole[:, 8:], blocks[:, 8:]) > 1e-3


RAGGED = {
    "all sorts": [[3, 0, 9], [1, 4, 1], [5, 2, 0], [1, 1, 1], [0, 7, 2], [4, 4, 4], [2, 0, 6]],
    "as many as it holds": [[2, 1, 3], [4, 4, 4], [1, 2, 1], [1, 1, 1], [1, 4, 2], [4, 1, 4], [1, 1, 1]],
    "one ends": [[4, 4, 4]] + [[1, 1, 0]] * 9 + [[1, 1, 1]] * 6,
    "tokens": [[7, 2, 5]] + [[1, 1, 1]] * 12,
}


@pytest.mark.parametrize("takes", RAGGED)
@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("table", ["sinusoids", "learned", "none"])
@torch.no_grad()
def test_rows_are_cut_one_by_one(takes: str, capacity: int | None, table: str) -> None:
    options = {
        "sinusoids": {},
        "learned": {"table": lambda d: LearnedPositions(d, 40)},
        "none": {"table": None},
    }
    mixer, calls = build(**options[table]), RAGGED[takes]  # type: ignore[arg-type]
    totals = [sum(call[b] for call in calls) for b in range(3)]
    rows = [randn(n, D_MODEL, seed=b) for b, n in enumerate(totals)]
    got, _ = feed(mixer, rows, calls, mixer.init_state(3, capacity))
    for b, row in enumerate(rows):
        counts = [call[b] for call in calls if call[b]]
        assert difference(got[b], expected(mixer, row, counts)) < 1e-12


@pytest.mark.parametrize("capacity", CAPACITIES)
@torch.no_grad()
def test_a_row_that_starts_anew_amid_cuts(capacity: int | None) -> None:
    mixer = build()
    x = randn(2, 30, D_MODEL)
    _, state = run(mixer, x[:, :11], [4, 1, 1, 1, 1, 1, 1, 1], mixer.init_state(2, capacity))
    state = reset_rows(state, torch.tensor([True, False]))
    counts = [1, 1, 4, 4, 1, 1, 1, 1, 1, 1, 1, 2]
    y, _ = run(mixer, x[:, 11:], counts, state)
    assert difference(y[0], expected(mixer, x[0, 11:], counts)) < 1e-12
    going_on = expected(mixer, x[1], [4, 1, 1, 1, 1, 1, 1, 1, *counts])
    assert difference(y[1], going_on[11:]) < 1e-12


@torch.no_grad()
def test_slots_stay_where_they_are_through_cuts() -> None:
    mixer = build()
    state = mixer.init_state(2, 100)
    assert state["slots"]["k"].shape[1] == 2 * MEM_LEN
    before = [t.data_ptr() for t in leaves(state["slots"])]
    _, state = run(mixer, randn(2, 20, D_MODEL), [9, 1, 1, 1, 1, 1, 1, 5], state)
    assert [t.data_ptr() for t in leaves(state["slots"])] == before


@pytest.mark.parametrize(
    ("capacity", "counts"), [(6, [4, 1, 1]), (6, [6]), (6, [3, 3]), (3, [3]), (5, [1] * 5)]
)
@torch.no_grad()
def test_a_small_capacity_holds_as_many_tokens_and_no_more(capacity: int, counts: list[int]) -> None:
    mixer = build()
    x = randn(1, sum(counts) + 3, D_MODEL)
    y, state = run(mixer, x[:, :-3], counts, mixer.init_state(1, capacity))
    assert difference(y[0], expected(mixer, x[0, :-3], counts)) < 1e-12
    with pytest.raises(IndexError):
        run(mixer, x[:, -3:], [3] if capacity == 3 else [1, 1, 1], state)


@torch.no_grad()
def test_without_a_memory_blocks_are_alone_and_a_capacity_is_a_plain_cache() -> None:
    mixer = build(mem_len=0)
    x = randn(2, 12, D_MODEL)
    whole = mixer(x, None, Layout(True)).y
    blocks, state = run(mixer, x, [4, 4, 4], mixer.init_state(2))
    assert state["past"]["x"].shape == (2, 0, D_MODEL)
    assert state["length"].tolist() == [0, 0]
    for part, y in zip(x.split(4, 1), blocks.split(4, 1), strict=True):
        assert torch.equal(mixer(part, None, Layout(True)).y, y)
    cached, state = run(mixer, x, [5, 1, 1, 3, 2], mixer.init_state(2, 12))
    assert difference(cached, whole) < 1e-12
    assert state["length"].tolist() == [12, 12]
    with pytest.raises(IndexError):
        mixer(x[:, :1], state, Layout(True))


def test_a_detached_memory_gets_no_gradient_and_teaches_the_weights_all_the_same() -> None:
    mixer = build()
    past, x = randn(2, 4, D_MODEL).requires_grad_(), randn(2, 4, D_MODEL, seed=2).requires_grad_()
    weight = randn(2, 4, D_MODEL, seed=3)

    def found(cut: bool) -> dict[str, Tensor]:
        state = mixer(past, mixer.init_state(2), Layout(True)).state
        y = mixer(x, detach(state) if cut else state, Layout(True)).y
        loss = (y * weight).sum() + 0.0 * past.sum()
        return gradients(loss, [past, x], mixer)

    rows = list(past)
    naive = (infused(mixer, x, True, None, rows) * weight).sum()
    target = gradients(naive, [past, x], mixer)
    carried, cut = found(False), found(True)
    assert all(difference(carried[key], target[key]) < 1e-12 for key in target)
    assert torch.equal(cut["input 0"], torch.zeros_like(past))
    assert target["input 0"].abs().max() > 0.1
    assert all(difference(cut[key], target[key]) < 1e-12 for key in target if key != "input 0")


@torch.no_grad()
def test_without_a_table_it_is_full_attention_over_the_remembered_inputs() -> None:
    mixer, full = build(table=None), FullAttention(D_MODEL, 3).double()
    full.load_state_dict(mixer.state_dict())
    x = randn(2, 12, D_MODEL)
    for causal in (True, False):
        assert difference(mixer(x, None, Layout(causal)).y, full(x, None, Layout(causal)).y) < 1e-12
    y, _ = run(mixer, x, [4, 4, 4], mixer.init_state(2))
    for at in (4, 8):
        pair = full(x[:, at - 4 : at + 4], None, Layout(True)).y
        assert difference(y[:, at : at + 4], pair[:, 4:]) < 1e-12


@torch.no_grad()
def test_values_bear_no_positions() -> None:
    # With equal inputs everywhere every value is the same, whatever the weights: only a position could tell them apart.
    mixer = build()
    x = randn(1, 1, D_MODEL).expand(2, 9, -1)
    y = mixer(x, None, Layout(True)).y
    assert difference(y, y[:, :1].expand_as(y)) < 1e-12


def test_dropout_acts_in_training_only() -> None:
    mixer, x = build(dropout=0.5), randn(1, 9, D_MODEL)
    assert torch.equal(mixer(x, None, Layout(True)).y, mixer(x, None, Layout(True)).y)
    mixer.train()
    assert not torch.equal(mixer(x, None, Layout(True)).y, mixer(x, None, Layout(True)).y)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"n_heads 5.*d_model 12"):
        InfusedAttention(12, 5)
    with pytest.raises(ValueError, match=r"mem_len.*0, not -1"):
        InfusedAttention(12, 3, mem_len=-1)
    mixer = build()
    for memory in (MemorySettings(4, clamp_len=3), MemorySettings(4, same_length=True)):
        with pytest.raises(ValueError, match="settings of relative positions"):
            mixer.init_state(2, None, CallSettings(memory))


def test_every_query_sees_something() -> None:
    held, layout = torch.tensor([3, 0]), Layout(False, lengths=torch.tensor([2, 0]))
    for columns in (0, 3):
        attention_mask = visible(held if columns else 0 * held, columns, 2, layout)
        assert attention_mask is not None
        assert attention_mask.any(-1).all()
    assert visible(0 * held, 0, 2, Layout(True)) is visible(0 * held, 0, 2, Layout(False)) is None


def test_outputs_at_padded_queries_are_finite() -> None:
    mixer, x = build(), randn(2, 4, D_MODEL)
    for causal in (True, False):
        layout = Layout(causal, lengths=torch.tensor([4, 0]))
        for state in (None, mixer.init_state(2), mixer(x, mixer.init_state(2), Layout(True)).state):
            assert mixer(x, state, layout).y.isfinite().all()


@torch.inference_mode()
def test_decoding_makes_no_table_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    original = positions.split_sinusoids

    def counted(where: Tensor, width: int, dtype: torch.dtype) -> Tensor:
        made.append(where.numel())
        return original(where, width, dtype)

    positions._leading.cache_clear()
    monkeypatch.setattr(positions, "split_sinusoids", counted)
    mixer = build()
    run(mixer, randn(1, 40, D_MODEL), [1] * 40, mixer.init_state(1, 100))
    assert made == [64]
    run(mixer, randn(1, 40, D_MODEL), [1] * 40, mixer.init_state(1))
    assert made == [64]
    positions._leading.cache_clear()


def test_training_works_after_inference_mode_made_the_table() -> None:
    positions._leading.cache_clear()
    mixer, x = build(), randn(1, 6, D_MODEL).requires_grad_()
    with torch.inference_mode():
        mixer(x, mixer.init_state(1), Layout(True))
    assert not positions.leading(mixer.table, 6, x).is_inference()  # type: ignore[arg-type]
    mixer(x, mixer.init_state(1), Layout(True)).y.sum().backward()
    assert x.grad is not None
    assert x.grad.abs().max() > 0


@pytest.mark.parametrize("capacity", CAPACITIES)
@torch.no_grad()
def test_autocast(capacity: int | None) -> None:
    mixer = build().float()
    x, counts = randn(2, 14, D_MODEL).float(), [5] + [1] * 9
    exact, _ = run(mixer, x, counts, mixer.init_state(2, capacity))
    with torch.autocast("cpu", torch.bfloat16):
        rough, state = run(mixer, x, counts, mixer.init_state(2, capacity))
    assert all(t.dtype == torch.float32 for t in leaves(state) if t.is_floating_point())
    assert rough.dtype == torch.bfloat16
    assert 1e-6 < difference(rough.float(), exact) < 0.1
