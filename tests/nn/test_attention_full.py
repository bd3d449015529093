"""Full attention beyond the laws: widths, cross-attention, beams, masks, dropout."""

import pytest
import torch
from torch import Tensor

from repro.nn import CrossAttention, FullAttention, Layout
from repro.nn.attention import full
from tests.nn import reference
from tests.nn.mixers import D_MODEL, difference, gradients, randomise

NO_TIME = Layout(False)
CROSS = {
    "plain": {},
    "narrow keys": {"d_head": 3, "d_value": 5},
    "no bias": {"bias": False},
}


def cross(**options: int | bool) -> CrossAttention:
    torch.manual_seed(0)
    return randomise(CrossAttention(D_MODEL, 2, **options).double())  # type: ignore[arg-type,return-value]


def randn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", [FullAttention, CrossAttention])
def test_heads_that_do_not_divide_the_width_are_refused(kind: type) -> None:
    with pytest.raises(ValueError, match=r"n_heads 5.*d_model 12"):
        kind(12, 5)
    assert kind(12, 5, d_head=4).out.in_features == 20


@pytest.mark.parametrize("kind", [FullAttention, CrossAttention])
@pytest.mark.parametrize("wrong", [{"n_heads": 0}, {"n_heads": -4}, {"d_head": 0}, {"d_value": -1}])
def test_numbers_of_heads_and_their_widths_are_at_least_1(kind: type, wrong: dict[str, int]) -> None:
    with pytest.raises(
        ValueError, match=f"{next(iter(wrong))} {next(iter(wrong.values()))}.* must be at least 1"
    ):
        kind(12, **({"n_heads": 2} | wrong))


def test_value_width_follows_key_width_unless_given() -> None:
    assert FullAttention(12, 2, d_head=3).widths == [6, 6, 6]
    assert FullAttention(12, 2, d_head=3, d_value=5).widths == [6, 6, 10]
    assert CrossAttention(12, 2, d_value=5).widths == [12, 10]


@pytest.mark.parametrize("steps", [1, 7, 63])
@pytest.mark.parametrize("options", CROSS)
def test_cross_attention_equals_the_naive_loop(options: str, steps: int) -> None:
    mixer = cross(**CROSS[options])
    x, memory = randn(2, steps, D_MODEL).requires_grad_(), randn(2, 9, D_MODEL, seed=2).requires_grad_()
    lengths, weight = torch.tensor([9, 4]), randn(2, steps, D_MODEL, seed=3)
    got = mixer(x, mixer.attend_to(memory, lengths), NO_TIME).y
    expected = reference.cross_attention(mixer, x, memory, lengths)
    assert difference(got, expected) < 1e-12
    target = gradients((expected * weight).sum(), [x, memory], mixer)
    for key, grad in gradients((got * weight).sum(), [x, memory], mixer).items():
        assert difference(grad, target[key]) < 1e-12, key


@torch.no_grad()
def test_cross_attention_without_lengths_sees_the_whole_memory() -> None:
    mixer, x, memory = cross(), randn(2, 3, D_MODEL), randn(2, 5, D_MODEL, seed=2)
    got = mixer(x, mixer.attend_to(memory, None), NO_TIME).y
    assert difference(got, reference.cross_attention(mixer, x, memory)) < 1e-12


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("padded", [True, False])
@torch.no_grad()
def test_beams_that_share_a_memory_equal_repeated_memories(steps: int, padded: bool) -> None:
    mixer, x, memory = cross(), randn(6, steps, D_MODEL), randn(2, 5, D_MODEL, seed=2)
    lengths = torch.tensor([5, 2]) if padded else None
    repeated = lengths.repeat_interleave(3) if lengths is not None else None
    shared = mixer.attend_to(memory, lengths)
    y, state, *_ = mixer(x, shared, NO_TIME)
    assert (
        difference(y, mixer(x, mixer.attend_to(memory.repeat_interleave(3, 0), repeated), NO_TIME).y) < 1e-12
    )
    assert state["k"].shape[0] == 2
    assert state is shared


@torch.no_grad()
def test_outputs_at_padding_are_finite_even_in_a_row_without_tokens() -> None:
    mixer = FullAttention(D_MODEL, 2)
    x = torch.randn(2, 4, D_MODEL)
    for causal in (True, False):
        for state in (None, mixer.init_state(2)):
            layout = Layout(causal, torch.zeros(2, dtype=torch.long), torch.tensor([0, 3]), torch.arange(4))
            assert mixer(x, state, layout).y.isfinite().all()


@pytest.mark.parametrize("kind", [FullAttention, CrossAttention])
def test_dropout_acts_on_the_attention_weights_in_training_only(kind: type) -> None:
    torch.manual_seed(0)
    mixer = kind(D_MODEL, 2, dropout=0.5)
    x = torch.randn(2, 6, D_MODEL)
    state = mixer.attend_to(x, None) if kind is CrossAttention else None
    first, second = mixer(x, state, NO_TIME).y, mixer(x, state, NO_TIME).y
    assert difference(first, second) > 1e-3
    mixer.eval()
    assert torch.equal(mixer(x, state, NO_TIME).y, mixer(x, state, NO_TIME).y)


@pytest.mark.parametrize("causal", [True, False])
def test_the_table_of_weights_changes_nothing_but_what_is_kept(causal: bool) -> None:
    fused, spelled = FullAttention(D_MODEL, 2).double(), FullAttention(D_MODEL, 2, fused=False).double()
    spelled.load_state_dict(fused.state_dict())
    x = randn(2, 9, D_MODEL).double()
    layout = Layout(causal, lengths=None if causal else torch.tensor([9, 4]))
    torch.testing.assert_close(spelled(x, None, layout).y[0], fused(x, None, layout).y[0], rtol=0, atol=1e-12)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        spelled(randn(1, 64, D_MODEL).double(), None, Layout(True))
    assert max(kept) == 2 * 64 * 64


@pytest.mark.parametrize("lengths", [[5, 5], [5, 2], [3, 3], [0, 0], [0, 4]])
@pytest.mark.parametrize("masked", [False, True])
def test_queries_in_blocks_see_what_each_sees_alone(
    monkeypatch: pytest.MonkeyPatch, lengths: list[int], masked: bool
) -> None:
    monkeypatch.setattr(full, "_LEAST", 2)
    steps, size = 7, 12
    given = [randn(2, n, 3, 4, seed=n).requires_grad_() for n in (steps, size, size)]
    q, k, v = given
    length = torch.tensor(lengths)
    valid = (torch.arange(size) != 1)[None, None, None] if masked else None
    rows = []
    for b in range(2):
        for t in range(steps):
            keys = [j for j in range(lengths[b] + t + 1) if valid is None or valid[..., j] or j == 0]
            weights = torch.einsum("he,she->hs", q[b, t], k[b, keys]).div(2.0).softmax(-1)
            rows.append(torch.einsum("hs,she->he", weights, v[b, keys]).flatten())
    naive = torch.stack(rows).view(2, steps, -1)
    y = full.attend_behind(q, k, v, length, 0.0, valid=valid)
    torch.testing.assert_close(y, naive)
    grad = randn(*y.shape)
    for ours, theirs in zip(
        torch.autograd.grad(y, given, grad), torch.autograd.grad(naive, given, grad), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("held", [0, 3])
def test_slots_that_are_not_in_use_are_not_read(held: int) -> None:
    mixer = FullAttention(12, 3).double()
    state = mixer.init_state(2, capacity=16)
    first, x = randn(2, held, 12), randn(2, 5, 12)
    if held:
        state = mixer(first, state, Layout(True)).state
    for slots in state["slots"].values():
        slots.data[:, held + 5 :] = torch.nan
    y = mixer(x, state, Layout(True)).y
    assert y.isfinite().all()
    whole = mixer(torch.cat([first, x], 1), None, Layout(True)).y
    torch.testing.assert_close(y, whole[:, held:])
