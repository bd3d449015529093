"""Attention by distance behind a norm: the memory holds what came before it. In float64 against the naive loops."""

from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn import Layout, PostNorm, PreNorm, RelativeAttention, ReversibleStack, ShawAttention
from repro.nn.attention.relative import shift
from repro.nn.mixer import detach, reset_rows
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings
from tests.nn.mixers import D_MODEL, difference, even_takes, feed, randomise
from tests.nn.reference_relative import pre_norm

KINDS = ["relative", "shaw"]
LENGTHS = [9, 11, 7]
TAKES = [[4, 3, 0], [2, 4, 1], [0, 1, 3], [3, 3, 3]]
MEMORIES = [MemorySettings(5), MemorySettings(4, 2), MemorySettings(3, 3, True)]


class Sublayer(PreNorm):
    """A pre-norm sublayer that can be fed like a mixer."""

    def init_state(self, batch: int, capacity: int | None = None, settings: Any = AS_BUILT) -> Any:
        return self.body.init_state(batch, capacity, settings)  # type: ignore[operator]


def sublayer(kind: str, mem_len: int = 5, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    mixer: Any = RelativeAttention(D_MODEL, 3, d_head=5, mem_len=mem_len)
    if kind == "shaw":
        mixer = ShawAttention(D_MODEL, 3, 6, mem_len=mem_len)
    return randomise(Sublayer(mixer, D_MODEL, dropout=0.0).double().eval())


def rows(lengths: list[int]) -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [3.0 * torch.randn(n, D_MODEL, generator=draw, dtype=torch.float64) + 1.0 for n in lengths]


def call(made: Any, x: Tensor, state: Any) -> Any:
    return made(x, state, Layout(True, positions=torch.arange(x.shape[1])))


def by_loop(
    made: Any, given: list[Tensor], takes: list[list[int]], cut: bool, memory: MemorySettings | None = None
) -> list[Tensor]:
    """Every call by the naive loop, each row's past being all inputs before it, without gradient where ``cut``."""
    outputs: list[list[Tensor]] = [[] for _ in given]
    at = [0] * len(given)
    for take in takes:
        for b, n in enumerate(take):
            past = given[b][: at[b]].detach() if cut else given[b][: at[b]]
            if n:
                outputs[b].append(pre_norm(made, given[b][at[b] : at[b] + n], past, memory))
            at[b] += n
    return [torch.cat(parts) for parts in outputs]


def fed(
    made: Any, given: list[Tensor], takes: list[list[int]], cut: bool, memory: MemorySettings
) -> list[Tensor]:
    """Every call by the sublayer, with the memory carried on, detached where ``cut``."""
    settings = CallSettings(memory)
    state, rest = made.init_state(len(given), None, settings), given
    outputs = []
    for take in takes:
        got, state = feed(made, rest, [take], detach(state) if cut else state, settings=settings)
        rest = [row[n:] for row, n in zip(rest, take, strict=True)]
        outputs.append(got)
    return [torch.cat(row) for row in zip(*outputs, strict=True)]


@pytest.mark.parametrize("cut", [True, False], ids=["detached", "attached"])
@pytest.mark.parametrize("memory", MEMORIES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_every_gradient_equal_the_loop(
    kind: str, memory: MemorySettings, cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shift, "_TILE", (2, 1))
    made, given = sublayer(kind), [row.requires_grad_() for row in rows(LENGTHS)]
    got, target = fed(made, given, TAKES, cut, memory), by_loop(made, given, TAKES, cut, memory)
    names, parameters = zip(*made.named_parameters(), strict=True)
    both = []
    for outputs in (got, target):
        loss = torch.stack([(y**2).sum() for y in outputs]).sum()
        both.append(torch.autograd.grad(loss, [*given, *parameters]))
    for y, expected in zip(got, target, strict=True):
        assert difference(y, expected) < 1e-12
    for name, one, other in zip([*LENGTHS, *names], *both, strict=True):
        assert difference(one, other) < 1e-12, name


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_memory_holds_inputs_of_the_norm_and_sees_the_norm_of_the_day(kind: str) -> None:
    made, x = sublayer(kind), torch.stack(rows([8, 8]))
    state = call(made, x[:, :5], made.init_state(2)).state
    assert torch.equal(state["memory"], x[:, :5])
    other = sublayer(kind, seed=7)
    made.norm_in.load_state_dict(other.norm_in.state_dict())
    got = call(made, x[:, 5:], state).y
    for b in range(2):
        assert difference(got[b], pre_norm(made, x[b, 5:], x[b, :5])) < 1e-12


@torch.no_grad()
def test_post_norm_remembers_the_same_inputs() -> None:
    made: Any = randomise(PostNorm(RelativeAttention(D_MODEL, 2, mem_len=5), D_MODEL).double().eval())
    x = torch.stack(rows([6]))
    state = call(made, x, made.body.init_state(1)).state
    assert torch.equal(state["memory"], x[:, 1:])
    alone = made.body(x, state, Layout(True)).y
    assert torch.equal(call(made, x, state).y, made.norm_out(x + alone))


@pytest.mark.parametrize("chunks", [1, 5, 8])
@pytest.mark.parametrize("capacity", [None, 27])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_chunks_equal_the_whole(kind: str, capacity: int | None, chunks: int) -> None:
    made, lengths = sublayer(kind, mem_len=20), [19, 19, 11]
    given = rows(lengths)
    got, _ = feed(made, given, even_takes(lengths, chunks), made.init_state(3, capacity))
    for y, row in zip(got, given, strict=True):
        assert difference(y, call(made, row[None], None).y[0]) < 1e-12


@pytest.mark.parametrize("takes", [TAKES, [[1, 1, 1]] * 7 + [[1, 1, 0]] * 2 + [[0, 2, 0]]], ids=str)
@pytest.mark.parametrize("memory", MEMORIES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_kept_keys_and_values_equal_the_loop(
    kind: str, memory: MemorySettings, takes: list[list[int]]
) -> None:
    made, given = sublayer(kind), rows(LENGTHS)
    settings = CallSettings(memory)
    got, state = feed(made, given, takes, made.init_state(3, 100, settings), settings=settings)
    target = by_loop(made, given, takes, cut=True, memory=memory)
    assert "slots" in state
    for y, expected in zip(got, target, strict=True):
        assert difference(y, expected) < 1e-12


@torch.no_grad()
def test_a_row_that_starts_anew_sees_nothing_of_its_old_memory() -> None:
    made, x = sublayer("relative"), torch.stack(rows([4, 4]))
    state = call(made, x, made.init_state(2)).state
    y = call(made, x, reset_rows(state, torch.tensor([True, False]))).y
    assert difference(y[0], call(made, x[:1], None).y[0]) < 1e-12
    assert difference(y[1], call(made, x[1:], None).y[0]) > 1e-3


@torch.no_grad()
def test_a_reversible_stack_in_evaluation_carries_the_same_memory() -> None:
    made, x = sublayer("relative"), torch.stack(rows([9]))
    stack = ReversibleStack([{"mix": made}], torch.nn.Identity(), join="mean").double().eval()
    state: Any = {"mix": (made.init_state(1),)}
    _, state, *_ = stack(x[:, :5], state, Layout(True))
    assert torch.equal(state["mix"][0]["memory"], x[:, :5])
    y = stack(x[:, 5:], state, Layout(True)).y
    assert difference(y[0], (x[0, 5:] + pre_norm(made, x[0, 5:], x[0, :5])) / 2) < 1e-12
