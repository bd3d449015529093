"""A mixer with a continuous memory: equal to a naive loop, in chunks, and in what its state promises. In float64."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import FullAttention, InfusedAttention, Layout, RelativeAttention
from repro.nn.attention.continuous import ContinuousMemory, ContinuousSignal
from repro.nn.attention.continuous.long_term import LongTermMemory
from repro.nn.attention.continuous.regression import evaluate
from repro.nn.mixer import leaves, reset_rows
from tests.nn import reference_continuous
from tests.nn.mixers import difference, feed, gradients, randomise
from tests.nn.test_laws import TOLERANCE, same_gradients

D = 6
PLAIN = ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=5, tau=0.6, ridge=0.3, kl_weight=0.5)
STICKY = replace(PLAIN, bins=7, kl_mean=-1.0)
FORGETFUL = replace(STICKY, forget_after=7)
SHORT: dict[str, Callable[[int], nn.Module]] = {
    "infused": lambda d: InfusedAttention(d, 2, mem_len=3),
    "relative": lambda d: RelativeAttention(d, 2, d_head=4, mem_len=6),
    "full": lambda d: FullAttention(d, 3),
}
LENGTHS = [23, 20, 9]
RAGGED = [[3, 0, 2], [3, 3, 1], [7, 5, 0], [1, 1, 1], [5, 6, 3], [4, 5, 2]]


def build(short: str, signal: ContinuousSignal, block: int = 3, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return randomise(ContinuousMemory(D, SHORT[short], block, signal).double().eval())


def tokens(lengths: Sequence[int] = LENGTHS, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, D, generator=generator, dtype=torch.float64).requires_grad_() for n in lengths]


def in_calls(mixer: Any, x: Tensor, sizes: Sequence[int], state: Any = None) -> tuple[Tensor, Any, Tensor]:
    """Outputs of ``x (B, T, D)`` in calls of those sizes, the last state, and the sum of the auxiliary losses."""
    state = mixer.init_state(len(x)) if state is None else state
    result, loss = [], torch.zeros(len(x), dtype=x.dtype)
    for part in x.split(list(sizes), dim=1):
        mixed = mixer(part, state, Layout(True))
        result.append(mixed.y)
        state, loss = mixed.state, loss + mixed.aux
    return torch.cat(result, dim=1), state, loss


@pytest.mark.parametrize("signal", [PLAIN, STICKY, FORGETFUL], ids=["plain", "sticky", "forgetful"])
@pytest.mark.parametrize("short", SHORT)
def test_ragged_calls_equal_the_naive_loop(short: str, signal: ContinuousSignal) -> None:
    mixer, rows = build(short, signal), tokens()
    got, state = feed(mixer, rows, RAGGED, mixer.init_state(3))
    expected, naive = [], [reference_continuous.Row(mixer) for _ in rows]
    for b, (row, one) in enumerate(zip(rows, naive, strict=True)):
        expected.append(torch.cat([one.call(part) for part in row.split([take[b] for take in RAGGED])]))
    for y, target in zip(got, expected, strict=True):
        assert difference(y, target) < TOLERANCE
    same_gradients(got, expected, rows, mixer)
    assert state["updates"].tolist()[0] == naive[0].held > 0


@pytest.mark.parametrize("steps", [1, 7, 25])
@pytest.mark.parametrize("short", SHORT)
def test_one_call_and_its_auxiliary_loss_equal_the_naive_loop(short: str, steps: int) -> None:
    mixer, rows = build(short, STICKY), tokens([steps, steps])
    mixed = mixer(torch.stack(rows), None, Layout(True))
    naive = [reference_continuous.Row(mixer) for _ in rows]
    expected = [row.call(x) for row, x in zip(naive, rows, strict=True)]
    assert mixed.state is None
    assert difference(mixed.y, torch.stack(expected)) < TOLERANCE
    losses = torch.stack([row.aux() for row in naive])
    assert difference(mixed.aux, losses) < TOLERANCE
    if steps == 25:
        assert bool((losses > 0).all())
        got = gradients(mixed.aux.sum(), rows, _Used(mixer))
        target = gradients(losses.sum(), rows, _Used(mixer))
        assert all(difference(got[key], target[key]) < 1e-11 for key in target)


class _Used(nn.Module):
    """The parameters that the auxiliary loss depends on."""

    def __init__(self, mixer: Any) -> None:
        super().__init__()
        self.gate, self.key, self.mean, self.spread = (
            getattr(mixer.long, name) for name in ("gate", "key", "mean", "spread")
        )


@pytest.mark.parametrize("sizes", [[1] * 21, [3] * 7, [2, 1] * 7, [1, 1, 1, 2, 1, 3, 3, 1, 2, 3, 3]])
@pytest.mark.parametrize("signal", [PLAIN, STICKY], ids=["plain", "sticky"])
def test_law_1_calls_within_blocks_equal_the_whole(signal: ContinuousSignal, sizes: list[int]) -> None:
    """The short-term mixer must obey the law, too: infused attention with as much memory as a block has tokens."""
    mixer, (row,) = build("infused", signal), tokens([21])
    expected = mixer(row[None], None, Layout(True)).y
    got, state, _ = in_calls(mixer, row[None], sizes)
    assert difference(got, expected) < TOLERANCE
    same_gradients([got], [expected], [row], mixer)
    assert state["updates"].tolist() == [5]


@pytest.mark.parametrize("short", ["infused", "full"])
@torch.no_grad()
def test_law_1_decoding_in_place_equals_blocks(short: str) -> None:
    mixer, x = build(short, STICKY), torch.stack(tokens([20, 20]))
    expected, _, _ = in_calls(mixer, x, [3] * 6 + [2])
    for sizes in ([1] * 20, [6, 3] + [1] * 11, [3, 2, 1] + [1] * 14):
        got, state, _ = in_calls(mixer, x, sizes, mixer.init_state(2, capacity=30))
        assert difference(got, expected) < TOLERANCE
    assert all(leaf.shape[1] <= 8 for leaf in leaves(state["short"]) if leaf.dim() > 1)


@torch.no_grad()
def test_law_1_ragged_prompts_are_continued_one_by_one() -> None:
    mixer, rows = build("full", STICKY), tokens([14, 12])
    takes = [[3, 2], *[[1, 1]] * 10, [1, 0]]
    got, _ = feed(mixer, rows, takes, mixer.init_state(2, capacity=20))
    for y, row in zip(got, rows, strict=True):
        assert difference(y, mixer(row[None], None, Layout(True)).y[0]) < TOLERANCE


@pytest.mark.parametrize("token", [0, 4, 11])
@pytest.mark.parametrize("short", SHORT)
@torch.no_grad()
def test_law_2_a_token_changes_nothing_before_it_and_everything_long_after(short: str, token: int) -> None:
    mixer, x = build(short, PLAIN), torch.stack(tokens([33, 33]))
    other = x.clone()
    other[:, token] += 3.0
    before, after = (mixer(each, None, Layout(True)).y for each in (x, other))
    assert torch.equal(before[:, :token], after[:, :token])
    # By then the token has left every short-term memory.
    assert bool(((before - after)[:, token + 12 :].abs().amax(-1) > 1e-7).all())


@torch.no_grad()
def test_rows_do_not_depend_on_each_other() -> None:
    mixer, x = build("relative", STICKY), torch.stack(tokens([27, 27]))
    both, _, _ = in_calls(mixer, x, [3] * 9)
    alone, _, _ = in_calls(mixer, x[1:], [3] * 9)
    assert difference(both[1:], alone) < TOLERANCE


@pytest.mark.parametrize("short", SHORT)
@torch.no_grad()
def test_a_row_that_is_reset_starts_with_an_empty_memory(short: str) -> None:
    mixer, x = build(short, STICKY), torch.stack(tokens([39, 39]))
    _, state, _ = in_calls(mixer, x[:, :18], [3] * 6)
    assert state["updates"].min() > 1
    state = reset_rows(state, torch.tensor([False, True]))
    got, _, losses = in_calls(mixer, x[:, 18:], [3] * 7, state)
    on, _, _ = in_calls(mixer, x, [3] * 13)
    fresh, _, fresh_losses = in_calls(mixer, x[:, 18:], [3] * 7)
    assert difference(got[0], on[0, 18:]) < TOLERANCE
    assert difference(got[1], fresh[1]) < TOLERANCE
    assert difference(losses[1], fresh_losses[1]) < TOLERANCE
    assert difference(got[1], on[1, 18:]) > 1e-3


@torch.no_grad()
def test_a_stored_state_goes_on_bit_by_bit() -> None:
    mixer, x = build("relative", STICKY), torch.stack(tokens([36, 36]))
    _, state, _ = in_calls(mixer, x[:, :18], [3] * 6)
    assert state["draws"].tolist() == [3, 3]
    stored = {**state, "pending": {k: v.clone() for k, v in state["pending"].items()}}
    one, _, _ = in_calls(mixer, x[:, 18:], [3] * 6, state)
    torch.manual_seed(77)
    two, _, _ = in_calls(mixer, x[:, 18:], [3] * 6, stored)
    assert torch.equal(one, two)
    stored["draws"] = stored["draws"] + 1
    other, _, _ = in_calls(mixer, x[:, 18:], [3] * 6, stored)
    assert not torch.equal(one, other)


@torch.no_grad()
def test_sticky_memories_keep_what_was_attended_to() -> None:
    """What a draw leaves out is gone; what it repeats fills the past."""
    signal = ContinuousSignal(64, (0.02, 0.05), ridge=0.05, samples=64, bins=10)
    long = LongTermMemory(D, 2, 3, signal).double()
    nn.init.zeros_(long.gate.weight)
    nn.init.constant_(long.gate.bias, 20.0)  # open
    old = torch.cat([torch.ones(14, D), -torch.ones(6, D)]).double()[None]
    past = long.update(long.empty(1).double(), old, torch.tensor([True]), None)
    for bin_, kept in ((2, 1.0), (9, -1.0)):
        bins = torch.full((1, signal.samples), bin_)
        new = long.update(past, torch.zeros(1, 20, D).double(), torch.tensor([False]), bins)
        early, late = evaluate(torch.tensor([0.3, 0.9]).double(), signal) @ new[0]
        assert difference(early, torch.full_like(early, kept)) < 0.1
        assert float(late.abs().max()) < 0.1
