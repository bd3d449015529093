"""Attention by hashing: equal to loops, exact where chunks cover everything, and every known trap."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from repro.nn import Hashing, Layout, LSHAttention
from repro.nn.mixer import reorder, reset_rows
from tests.nn import reference_lsh
from tests.nn.mixers import D_MODEL, difference, gradients, randomise, valid

TOLERANCE = 1e-12
PAPER = Hashing(2, 8)
KINDS = {
    "paper": Hashing(2, 8, 6),
    "bucket mask only": Hashing(2, 8, 6, duplicates=True),
    "across": Hashing.across(2, 8, 6),
    "across, counted once": Hashing(2, 8, 6, across_buckets=True),
    "plain keys, self": Hashing(2, 8, 6, unit_keys=False, see_self=True),
    "average": Hashing(2, 8, 6, across_buckets=True, duplicates=True, average=True),
    "average, bucket mask": Hashing(2, 8, 6, duplicates=True, average=True, see_self=True),
}


def make(hashing: Hashing, **options: float) -> LSHAttention:
    torch.manual_seed(0)
    mixer = LSHAttention(D_MODEL, 2, hashing, d_head=5, d_value=3, bias=True, **options)  # type: ignore[arg-type]
    randomise(mixer)
    return mixer.double()


def tokens(steps: int, rows: int = 2, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, steps, D_MODEL, generator=generator, dtype=torch.float64).requires_grad_()


def weighted(y: Tensor) -> Tensor:
    return (y * torch.randn(y.shape, generator=torch.Generator().manual_seed(5), dtype=y.dtype)).sum()


def same(mixer: LSHAttention, got: Tensor, wanted: Tensor, x: Tensor) -> None:
    assert difference(got, wanted) < TOLERANCE
    expected = gradients(weighted(wanted), [x], mixer)
    for key, grad in gradients(weighted(got), [x], mixer).items():
        assert difference(grad, expected[key]) < TOLERANCE, key


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_loop(kind: str, causal: bool) -> None:
    for rounds, steps in [(1, 7), (2, 23), (4, 1), (4, 19)]:
        mixer, x = make(replace(KINDS[kind], rounds=rounds)), tokens(steps, rows=1)
        # T 23 and 19 are three chunks, the last of them filled up
        y, _, _, ids = mixer(x, None, Layout(causal))
        if ids is None:  # one chunk without a bucket mask: exact, whatever the buckets
            ids = torch.zeros(1, 2, rounds, steps, dtype=torch.long)
        same(mixer, y, reference_lsh.in_windows(mixer, x, causal, None, ids), x)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_equals_the_loop_at_63_tokens(rounds: int) -> None:
    mixer, x = make(Hashing(rounds, 8)), tokens(63, rows=1)
    y, _, _, ids = mixer(x, None, Layout(True))
    same(mixer, y, reference_lsh.in_windows(mixer, x, True, None, ids), x)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_not_seen(kind: str, causal: bool) -> None:
    mixer, x, lengths = make(KINDS[kind]), tokens(21, rows=3), torch.tensor([21, 1, 12])
    y, _, _, ids = mixer(x, None, Layout(causal, lengths=lengths))
    assert y.isfinite().all()
    y = y.masked_fill(~valid(lengths, 21)[..., None], 0.0)
    same(mixer, y, reference_lsh.in_windows(mixer, x, causal, lengths, ids), x)


def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, x = make(Hashing(3, 4, 4)), tokens(37)
    for causal in (True, False):
        layout = Layout(causal, choices=mixer(x, None, Layout(causal)).choices)
        whole = mixer(x, None, layout).y
        wanted = gradients(weighted(whole), [x], mixer)
        for size in (1, 70, 200, 1000):
            monkeypatch.setattr("repro.nn.attention.arrangement._BLOCK", {"cpu": size})
            y = mixer(x, None, layout).y
            assert difference(y, whole) < TOLERANCE
            for key, grad in gradients(weighted(y), [x], mixer).items():
                assert difference(grad, wanted[key]) < TOLERANCE, key
        monkeypatch.undo()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("steps", [64, 61])
def test_two_chunks_that_cover_everything_are_exact(
    dtype: torch.dtype, tolerance: float, causal: bool, steps: int
) -> None:
    mixer, x = (
        make(Hashing(1, 32, across_buckets=True)).to(dtype),
        tokens(steps).to(dtype).detach().requires_grad_(),
    )
    y = mixer(x, None, Layout(causal)).y
    got = gradients(weighted(y), [x], mixer)
    mixer.hashing = Hashing(0)
    wanted = mixer(x, None, Layout(causal)).y
    assert difference(y, wanted) < tolerance
    for key, grad in gradients(weighted(wanted), [x], mixer).items():
        assert difference(got[key], grad) < tolerance, key
    assert difference(wanted, reference_lsh.covering(mixer, x, causal)) < tolerance


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_rounds_are_one_softmax_over_the_union(rounds: int) -> None:
    hashing = Hashing(rounds, 8, 4)
    mixer, x = make(hashing), tokens(40)
    y, _, _, ids = mixer(x, None, Layout(True))
    order = ids.long().mul(1000).add(torch.arange(40)).argsort(-1)
    chunk = order.argsort(-1) // 8
    back = chunk[..., :, None] - chunk[..., None, :]
    near = (ids[..., :, None] == ids[..., None, :]) & (back >= 0) & (back <= 1)
    union = near.any(2) & torch.ones(40, 40, dtype=torch.bool).tril(-1)
    union |= ~union.any(-1, keepdim=True) & torch.eye(40, dtype=torch.bool)
    q, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in mixer.qk_v(x).split(mixer.widths, -1))
    scores = q @ (q / q.norm(dim=-1, keepdim=True)).transpose(-1, -2)
    dense = scores.masked_fill(~union, -torch.inf).softmax(-1) @ v
    same(mixer, y, mixer.out(dense.transpose(1, 2).flatten(2)), x)
    if rounds > 1:  # control: without the correction, pairs of several rounds weigh more
        mixer.hashing = replace(hashing, duplicates=True)
        assert difference(mixer(x, None, Layout(True, choices=ids)).y, y) > 1e-2


def changed(hashing: Hashing, other: Hashing, steps: int = 40) -> float:
    mixer, x = make(hashing), tokens(steps)
    y, _, _, ids = mixer(x, None, Layout(True))
    mixer.hashing = other
    return difference(mixer(x, None, Layout(True, choices=ids)).y, y)


@pytest.mark.parametrize(
    "other",
    [
        replace(PAPER, unit_keys=False),
        replace(PAPER, see_self=True),
        replace(PAPER, across_buckets=True),
        replace(PAPER, duplicates=True),
        replace(PAPER, duplicates=True, average=True),
        replace(PAPER, chunk=4),
    ],
)
def test_every_setting_matters(other: Hashing) -> None:
    first = replace(PAPER, duplicates=True) if other.average else PAPER
    assert changed(first, other) > 1e-2
    assert changed(first, first) == 0.0


def test_scores_are_not_divided_by_the_width() -> None:
    mixer, x = make(Hashing(0)), tokens(3, rows=1)
    q, v = mixer.qk_v(x[0]).split(mixer.widths, -1)
    q, v = q[:, :5], v[:, :3]  # the first head
    weights = (q[2] @ torch.stack([q[0] / q[0].norm(), q[1] / q[1].norm()]).T).softmax(0)
    mixer.out = torch.nn.Identity()  # type: ignore[assignment]
    for hashing in (Hashing(0), Hashing(1, 2, across_buckets=True)):
        mixer.hashing = hashing
        assert difference(mixer(x, None, Layout(True)).y[0, 2, :3], weights @ v[:2]) < TOLERANCE
    spread = (q[2] @ torch.stack([q[0] / q[0].norm(), q[1] / q[1].norm()]).T / math.sqrt(5)).softmax(0)
    assert difference(spread, weights) > 1e-2


@pytest.mark.parametrize("kind", ["paper", "across", "average"])
def test_no_key_comes_from_the_future_across_the_wrap_around(kind: str) -> None:
    """All tokens in one bucket, so that the sorted order is time and the first chunk looks back at the last."""
    mixer, x = make(replace(KINDS[kind], rounds=3)), tokens(24, rows=1)
    ids = torch.zeros(1, 2, 3, 24, dtype=torch.int16)
    other = x.detach().clone()
    other[:, 9:] += 1.0
    layout = Layout(True, choices=ids)
    assert torch.equal(mixer(x, None, layout).y[:, :9], mixer(other, None, layout).y[:, :9])
    (grad,) = torch.autograd.grad(mixer(x, None, layout).y[:, :9].sum(), [x])
    assert grad[:, 9:].abs().max() == 0.0
    assert grad[:, :9].abs().max() > 1e-3


def test_the_first_chunk_of_a_round_looks_at_the_last_of_the_round_before() -> None:
    mixer, x = make(Hashing.across(2, 4)), tokens(8, rows=1)
    ids = torch.zeros(1, 2, 2, 8, dtype=torch.int16)
    ids[:, :, 0] = torch.tensor([1, 0, 0, 1, 0, 0, 1, 1])  # the last chunk of round 0 holds tokens 0 and 3
    moved = ids.clone()
    moved[:, :, 0] = torch.tensor([0, 1, 0, 1, 0, 0, 1, 1])  # now it holds token 1 in place of 0
    outputs = [mixer(x, None, Layout(True, choices=each)).y for each in (ids, moved)]
    # In round 0 token 3 sees both either way; in round 1 its chunk of tokens 0 to 3 looks back.
    met = [reference_lsh.instances(each[0, 0], 8, mixer.hashing, True)[1][3] for each in (ids, moved)]
    assert [m.count(0) for m in met] == [2, 1]
    assert difference(outputs[0][:, 3], outputs[1][:, 3]) > 1e-3


def test_a_token_that_sees_nothing_else_gives_its_own_value_exactly() -> None:
    """In float32 scores near -1e5 are 0.008 apart, so that weights of rounds would not sum to 1."""
    for hashing in (Hashing(4, 8, 8), Hashing.across(4, 8, 8)):
        mixer, x = make(hashing).float(), tokens(64).float()
        mixer.out = torch.nn.Identity()  # type: ignore[assignment]
        own = mixer.qk_v(x).split(mixer.widths, -1)[1]
        assert torch.equal(mixer(x, None, Layout(True)).y[:, 0], own[:, 0])
    mixer.hashing = Hashing(4, 8, 128)
    ids = torch.arange(64, dtype=torch.int16).expand(2, 2, 4, 64)  # everyone alone
    y = mixer(x, None, Layout(True, choices=ids)).y
    assert torch.equal(y, own)
    (grad,) = torch.autograd.grad(weighted(y), [x], retain_graph=True)
    (wanted,) = torch.autograd.grad(weighted(own), [x])
    assert torch.equal(grad, wanted)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_half_precision(dtype: torch.dtype, tolerance: float) -> None:
    mixer, x = make(Hashing(4, 8)).float(), tokens(40).float()
    wanted, _, _, ids = mixer(x, None, Layout(True))
    with torch.autocast("cpu", dtype):
        got = mixer(x, None, Layout(True, choices=ids)).y
    assert got.dtype == dtype
    assert difference(got.float(), wanted) < tolerance
    grads = gradients(weighted(wanted), [x], mixer)
    for key, grad in gradients(weighted(got.float()), [x], mixer).items():
        assert difference(grad, grads[key]) < 3 * tolerance, key
    low = mixer.to(dtype)(x.to(dtype), None, Layout(True)).y
    assert low.isfinite().all()


def test_choices_are_replayed_and_random_numbers_with_them() -> None:
    mixer, x = make(Hashing(2, 8), dropout=0.3), tokens(40)
    torch.manual_seed(1)
    y, _, _, ids = mixer(x, None, Layout(True))
    after = torch.rand(())
    assert ids.dtype == torch.int8
    assert ids.shape == (2, 2, 2, 40)
    torch.manual_seed(1)
    again = mixer(x, None, Layout(True, choices=ids)).y
    assert torch.equal(again, y)
    assert torch.rand(()) == after
    fresh = mixer(x, None, Layout(True))
    assert not torch.equal(fresh.choices, ids)
    assert difference(fresh.y, y) > 1e-3
    with pytest.raises(ValueError, match="bucket ids of shape"):
        mixer(x, None, Layout(True, choices=ids[:, :, :1]))


def test_no_gradient_flows_through_the_buckets() -> None:
    mixer, x = make(Hashing(2, 8)), tokens(40)
    torch.manual_seed(1)
    y, _, _, ids = mixer(x, None, Layout(True))
    fixed = mixer(x, None, Layout(True, choices=ids)).y
    assert torch.equal(y, fixed)
    a, b = gradients(weighted(y), [x], mixer), gradients(weighted(fixed), [x], mixer)
    assert all(torch.equal(a[key], b[key]) for key in a)


def test_dropout_keeps_the_mean_and_its_gradient_is_right() -> None:
    mixer, x = make(Hashing(2, 8), dropout=0.4), tokens(16, rows=1)
    ids = mixer(x, None, Layout(True)).choices

    def run(point: Tensor) -> Tensor:
        torch.manual_seed(7)
        return mixer(point, None, Layout(True, choices=ids)).y

    assert torch.autograd.gradcheck(run, (x,), fast_mode=True)
    mixer.eval()
    wanted = run(x)
    mixer.train()
    with torch.no_grad():  # many rows alike, in blocks and over several calls
        rows, same_ids = x.expand(100, -1, -1), ids.expand(100, -1, -1, -1)
        many = torch.cat([mixer(rows, None, Layout(True, choices=same_ids)).y for _ in range(4)])
    error = many.std(0) / math.sqrt(len(many))
    assert ((many.mean(0) - wanted[0]).abs() < 4 * error + 1e-9).float().mean() > 0.99
    assert many.std(0).mean() > 0.05


def test_no_tensor_of_length_times_chunk_is_kept() -> None:
    mixer, x = LSHAttention(16, 2, Hashing(4, 32)), torch.randn(1, 512, 16, requires_grad=True)
    sizes: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (sizes.append(t.numel()), t)[1], lambda t: t):
        mixer(x, None, Layout(True)).y.sum().backward()
    assert max(sizes) <= 512 * 2 * 16


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("hashing", [Hashing(0), Hashing.across(2)])
def test_exact_attention_without_oneself(hashing: Hashing, causal: bool) -> None:
    mixer, lengths = make(hashing), torch.tensor([9, 1, 6])
    for steps in (1, 7):
        x = tokens(steps)
        same(mixer, mixer(x, None, Layout(causal)).y, reference_lsh.covering(mixer, x, causal), x)
    x, shown = tokens(9, rows=3), valid(lengths, 9)[..., None]
    y = mixer(x, None, Layout(causal, lengths=lengths)).y
    assert y.isfinite().all()
    same(mixer, y.where(shown, 0.0), reference_lsh.covering(mixer, x, causal, lengths), x)
    past = [row[:n] for row, n in zip(tokens(5, rows=3, seed=8).detach(), (5, 0, 2), strict=True)]
    before = torch.nn.utils.rnn.pad_sequence(past, batch_first=True)
    state = mixer(before, mixer.init_state(3), Layout(causal, lengths=torch.tensor([5, 0, 2]))).state
    y = mixer(x, state, Layout(causal, lengths=lengths)).y.where(shown, 0.0)
    same(mixer, y, reference_lsh.covering(mixer, x, causal, lengths, past), x)


# --- leakage, and laws I and II where they hold


@torch.no_grad()
@pytest.mark.parametrize("hashing", [Hashing(1, 32, across_buckets=True), Hashing(0), Hashing.across(3, 64)])
def test_law_2_holds_where_chunks_cover_everything(hashing: Hashing) -> None:
    mixer, x = make(hashing), tokens(64)
    other = x.clone()
    other[:, 40:] += 1.0
    outputs = [mixer(each, None, Layout(True)).y[:, :40] for each in (x, other)]
    assert difference(outputs[0], outputs[1]) < TOLERANCE


@torch.no_grad()
@pytest.mark.parametrize("hashing", [Hashing(2, 8, 4), Hashing.across(1, 8)])
def test_elsewhere_a_later_token_changes_earlier_outputs(hashing: Hashing) -> None:
    mixer, x = make(hashing), tokens(64)
    other = x.clone()
    other[:, 40:] = tokens(24, seed=9)
    outputs = []
    for each in (x, other):
        torch.manual_seed(2)  # the same rotations
        outputs.append(mixer(each, None, Layout(True)).y[:, :40])
    assert difference(outputs[0], outputs[1]) > 1e-3


# --- decoding


def stream(mixer: LSHAttention, x: Tensor, size: int, capacity: int | None) -> tuple[Tensor, Tensor]:
    """Fed ``size`` tokens at a time; outputs and bucket ids."""
    state, outputs, ids = mixer.init_state(len(x), capacity), [], []
    for first in range(0, x.shape[1], size):
        y, state, _, new = mixer(x[:, first : first + size], state, Layout(True))
        outputs.append(y)
        ids.append(new)
    return torch.cat(outputs, 1), torch.cat(ids, -1)


@pytest.mark.parametrize("capacity", [None, 40])
@pytest.mark.parametrize("kind", ["paper", "bucket mask only", "plain keys, self", "average, bucket mask"])
def test_decoding_sees_the_keys_of_its_buckets(kind: str, capacity: int | None) -> None:
    """Law I with the stream's buckets, where one chunk holds the sequence."""
    mixer, x = make(replace(KINDS[kind], chunk=64)), tokens(31).detach()
    with torch.no_grad():
        for size in (1, 7, 31):
            torch.manual_seed(4)
            got, ids = stream(mixer, x, size, capacity)
            wanted = mixer(x, None, Layout(True, choices=ids)).y
            assert difference(got, wanted) < TOLERANCE
            # control: not everything is seen
            full = mixer(x, None, Layout(True, choices=torch.zeros_like(ids))).y
            assert difference(got, full) > 1e-2


def test_gradients_flow_through_a_growing_state() -> None:
    mixer, x = make(Hashing(2, 64, 4)), tokens(20)
    got, ids = stream(mixer, x, 6, None)
    same(mixer, got, mixer(x, None, Layout(True, choices=ids)).y, x)


@torch.no_grad()
def test_a_stream_keeps_its_rotations_until_it_is_reset() -> None:
    mixer, x = make(Hashing(2, 16, 8)), tokens(2).detach()
    state = mixer.init_state(2, 40)
    assert state["slots"]["buckets"].dtype == torch.int8
    state = mixer(x, state, Layout(True)).state
    first = state["rotations"].clone()
    assert first.abs().min() > 0.0
    state = mixer(x, state, Layout(True)).state
    assert torch.equal(state["rotations"], first)
    swapped = reorder(state, torch.tensor([1, 0, 0]))
    assert torch.equal(swapped["rotations"][2], first[0])
    state = mixer(x, reset_rows(state, torch.tensor([False, True])), Layout(True)).state
    assert torch.equal(state["rotations"][0], first[0])
    assert difference(state["rotations"][1], first[1]) > 1e-1
    assert state["rotations"][1].abs().min() > 0.0
    assert state["length"].tolist() == [6, 2]


@torch.no_grad()
def test_rows_of_a_reordered_state_go_on_alone() -> None:
    mixer, x = make(Hashing(2, 16, 4)), tokens(12, rows=3).detach()
    state = mixer(x[:, :8], mixer.init_state(3, 20), Layout(True, lengths=torch.tensor([8, 3, 6]))).state
    rows = torch.tensor([2, 0])
    beams = reorder(state, rows)
    got = mixer(x[rows, 8:9], beams, Layout(True)).y
    wanted = mixer(x[:, 8:9], state, Layout(True)).y
    assert difference(got, wanted[rows]) < TOLERANCE


def test_a_growing_state_needs_a_number_of_buckets() -> None:
    with pytest.raises(ValueError, match=r"set hashing.buckets, or give a capacity"):
        make(Hashing(1, 8)).init_state(1)
    assert "rotations" not in make(Hashing.across(1, 8)).init_state(1)
