"""Attention by hashing: equal to loops, exact where chunks cover everything, and every known trap."""

import math
from dataclasses import replace

import pytest
import torch

from repro.nn import Hashing, Layout
from tests.nn import reference_lsh
from tests.nn.hashed import KINDS, TOLERANCE, make, same, tokens, weighted
from tests.nn.mixers import difference, gradients, valid

PAPER = Hashing(2, 8)


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
    expected = mixer(x, None, Layout(causal)).y
    assert difference(y, expected) < tolerance
    for key, grad in gradients(weighted(expected), [x], mixer).items():
        assert difference(got[key], grad) < tolerance, key
    assert difference(expected, reference_lsh.covering(mixer, x, causal)) < tolerance


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
        assert difference(mixer(x, None, Layout(True, bucket_replay=ids)).y, y) > 1e-2


def changed(hashing: Hashing, other: Hashing, steps: int = 40) -> float:
    mixer, x = make(hashing), tokens(steps)
    y, _, _, ids = mixer(x, None, Layout(True))
    mixer.hashing = other
    return difference(mixer(x, None, Layout(True, bucket_replay=ids)).y, y)


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
    layout = Layout(True, bucket_replay=ids)
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
    outputs = [mixer(x, None, Layout(True, bucket_replay=each)).y for each in (ids, moved)]
    # In round 0 token 3 sees both either way; in round 1 its chunk of tokens 0 to 3 looks back.
    met = [reference_lsh.instances(each[0, 0], 8, mixer.hashing, True)[1][3] for each in (ids, moved)]
    assert [m.count(0) for m in met] == [2, 1]
    assert difference(outputs[0][:, 3], outputs[1][:, 3]) > 1e-3


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("hashing", [Hashing(0), Hashing.across(2)])
def test_exact_attention_without_oneself(hashing: Hashing, causal: bool) -> None:
    mixer, lengths = make(hashing), torch.tensor([9, 1, 6])
    for steps in (1, 7):
        x = tokens(steps)
        same(mixer, mixer(x, None, Layout(causal)).y, reference_lsh.covering(mixer, x, causal), x)
    x, displayed = tokens(9, rows=3), valid(lengths, 9)[..., None]
    y = mixer(x, None, Layout(causal, lengths=lengths)).y
    assert y.isfinite().all()
    same(mixer, y.where(displayed, 0.0), reference_lsh.covering(mixer, x, causal, lengths), x)
    past = [row[:n] for row, n in zip(tokens(5, rows=3, seed=8).detach(), (5, 0, 2), strict=True)]
    before = torch.nn.utils.rnn.pad_sequence(past, batch_first=True)
    state = mixer(before, mixer.init_state(3), Layout(causal, lengths=torch.tensor([5, 0, 2]))).state
    y = mixer(x, state, Layout(causal, lengths=lengths)).y.where(displayed, 0.0)
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
