"""Common parts of relative and Shaw's attention: memories, rings, settings; in float64 against the naive loops."""

from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn import Layout, RelativeAttention, ShawAttention
from repro.nn.attention.relative import shift
from repro.nn.mixer import detach, reset_rows
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings
from tests.nn import reference_relative
from tests.nn.mixers import D_MODEL, difference, feed, randomise, valid

KINDS = ["relative", "shaw"]
LOOPS: dict[str, Any] = {"relative": reference_relative.relative, "shaw": reference_relative.shaw}
MEMORIES = [
    MemorySettings(5),
    MemorySettings(5, clamp_len=3),
    MemorySettings(5, same_length=True),
    MemorySettings(4, 2, True),
    MemorySettings(1),
    MemorySettings(1, 1, True),
]
TAKES = [[4, 3, 0], [2, 4, 1], [0, 1, 3], [3, 3, 3]]


def mixer(kind: str, mem_len: int = 5, **options: Any) -> Any:
    torch.manual_seed(0)
    if kind == "relative":
        made: Any = RelativeAttention(D_MODEL, 3, mem_len=mem_len, **options)
    else:
        made = ShawAttention(D_MODEL, 3, max_distance=6, mem_len=mem_len, **options)
    return randomise(made.double().eval())


def rows(lengths: list[int], seed: int = 1) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(n, D_MODEL, generator=draw, dtype=torch.float64) for n in lengths]


def layout(steps: int, lengths: Tensor | None = None) -> Layout:
    return Layout(True, lengths=lengths, positions=torch.arange(steps))


def by_loop(
    kind: str, made: Any, given: list[Tensor], takes: list[list[int]], memory: MemorySettings | None = None
) -> list[Tensor]:
    """Every call by the naive loop, each row's past being all that was before."""
    made = reference_relative.told(made, memory)
    outputs: list[list[Tensor]] = [[] for _ in given]
    at = [0] * len(given)
    for take in takes:
        for b, n in enumerate(take):
            x, past = given[b][None, at[b] : at[b] + n], [given[b][: at[b]]]
            if n:
                outputs[b].append(LOOPS[kind](made, x, True, None, past)[0])
            at[b] += n
    return [torch.cat(parts) for parts in outputs]


def fed(
    made: Any,
    given: list[Tensor],
    takes: list[list[int]],
    settings: CallSettings = AS_BUILT,
    capacity: int | None = None,
) -> list[Tensor]:
    """Every call by the mixer, with the memory carried on, all under the same settings."""
    state = made.init_state(len(given), capacity, settings)
    return feed(made, given, takes, state, settings=settings)[0]


@pytest.mark.parametrize("capacity", [None, 100])
@pytest.mark.parametrize("memory", MEMORIES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_ragged_calls_beyond_the_memory_equal_the_loop(
    kind: str, memory: MemorySettings, capacity: int | None
) -> None:
    made, given = mixer(kind), rows([9, 11, 7])
    got = fed(made, given, TAKES, CallSettings(memory), capacity)
    target = by_loop(kind, made, given, TAKES, memory)
    for y, expected in zip(got, target, strict=True):
        assert difference(y, expected) < 1e-12


@pytest.mark.parametrize("capacity", [None, 100])
@pytest.mark.parametrize("memory", MEMORIES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_single_tokens_beyond_the_memory_equal_the_loop(
    kind: str, memory: MemorySettings, capacity: int | None
) -> None:
    made, given = mixer(kind), rows([14, 12])
    takes = [[1, 1]] * 9 + [[1, 0]] + [[3, 2]] + [[1, 1]]
    got = fed(made, given, takes, CallSettings(memory), capacity)
    target = by_loop(kind, made, given, takes, memory)
    for y, expected in zip(got, target, strict=True):
        assert difference(y, expected) < 1e-12


@pytest.mark.parametrize("name", ["clamp_len", "same_length", "mem_len"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_control_every_part_of_the_reach_matters(kind: str, name: str) -> None:
    made, given, other = mixer(kind), rows([9]), {"mem_len": 4, "clamp_len": 2, "same_length": True}
    takes = [[5], [4]]
    before = fed(made, given, takes, CallSettings(MemorySettings(5, 3, False)))
    settings = {"mem_len": 5, "clamp_len": 3, "same_length": False} | {name: other[name]}
    after = fed(made, given, takes, CallSettings(MemorySettings(**settings)))  # type: ignore[arg-type]
    assert difference(after[0], before[0]) > 1e-3


@pytest.mark.parametrize(
    "memory", [MemorySettings(5), MemorySettings(5, 3), MemorySettings(4, 1, True)], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_through_a_memory_that_was_cut(
    kind: str, memory: MemorySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shift, "_TILE", (2, 1))
    made, given = mixer(kind), [row.requires_grad_() for row in rows([9, 11, 7])]
    inputs = [*given, *made.parameters()]
    got = fed(made, given, TAKES, CallSettings(memory))
    loops = by_loop(kind, made, given, TAKES, memory)
    result = torch.autograd.grad(sum((y**2).sum() for y in got), inputs)  # type: ignore[arg-type]
    expected = torch.autograd.grad(sum((y**2).sum() for y in loops), inputs)  # type: ignore[arg-type]
    for one, other in zip(result, expected, strict=True):
        assert difference(one, other) < 1e-12


@pytest.mark.parametrize("lengths", [None, [4, 4]])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_grows_to_its_length_and_holds_the_last_inputs(kind: str, lengths: list[int] | None) -> None:
    made, given = mixer(kind, mem_len=7), torch.stack(rows([12, 12]))
    state, taken = made.init_state(2), None if lengths is None else torch.tensor(lengths)
    for end, size in ((4, 4), (8, 7), (12, 7)):
        _, state, aux, _ = made(given[:, end - 4 : end], state, layout(4, taken))
        assert aux is None
        assert torch.equal(state["memory"], given[:, end - size : end])
        assert state["length"].tolist() == [size, size]


@pytest.mark.parametrize("reread", [1, 3, 4])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_tokens_that_are_read_again_are_not_remembered(kind: str, reread: int) -> None:
    made, given = mixer(kind, mem_len=5), torch.stack(rows([12, 12]))
    state, plain = made.init_state(2), made.init_state(2)
    again = Layout(True, positions=torch.arange(4), settings=CallSettings(reread=reread))
    end = 0
    for _ in range(3):  # the next call begins with what is read again
        x = given[:, end : end + 4]
        y, state, *_ = made(x, state, again)
        assert torch.equal(y, made(x, plain, layout(4)).y)
        plain = made(x[:, : 4 - reread], plain, layout(4 - reread)).state if reread < 4 else plain
        end += 4 - reread
        assert torch.equal(state["memory"], plain["memory"])
        assert state["length"].tolist() == plain["length"].tolist()
    with pytest.raises(ValueError, match="read again"):
        made(
            x,
            state,
            Layout(True, None, torch.tensor([4, 4]), torch.arange(4), settings=CallSettings(reread=1)),
        )


@pytest.mark.parametrize("capacity", [None, 100])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_calls_longer_than_the_memory_without_padding(kind: str, capacity: int | None) -> None:
    made, given = mixer(kind, mem_len=3), rows([15])
    state, outputs = made.init_state(1, capacity), []
    for x in given[0].split([7, 1, 2, 5]):
        y, state, *_ = made(x[None], state, layout(len(x)))
        outputs.append(y[0])
    expected = by_loop(kind, made, given, [[7], [1], [2], [5]])
    assert difference(torch.cat(outputs), expected[0]) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_mixer_does_not_detach_and_a_detached_memory_gets_no_gradient(kind: str) -> None:
    made, given = mixer(kind), torch.stack(rows([8, 8])).requires_grad_()
    _, state, *_ = made(given[:, :4], made.init_state(2), layout(4))
    (through,) = torch.autograd.grad(made(given[:, 4:], state, layout(4)).y.sum(), given)
    assert through[:, :4].abs().max() > 1e-3
    (cut,) = torch.autograd.grad(made(given[:, 4:], detach(state), layout(4)).y.sum(), given)
    assert not cut[:, :4].any()
    assert cut[:, 4:].any()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_ring_has_one_slot_more_than_the_memory_or_the_capacity(kind: str) -> None:
    made = mixer(kind, mem_len=6)
    assert made.init_state(2, 100)["slots"]["k"].shape == (2, 7, 3, 4)
    assert made.init_state(2, 3)["slots"]["v"].shape == (2, 4, 3, 4)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_smaller_capacity_is_a_shorter_memory(kind: str) -> None:
    made, given, takes = mixer(kind, mem_len=50), rows([16]), [[5], [1], [1], [4], [1], [4]]
    got, _ = feed(made, given, takes, made.init_state(1, 3))
    expected = by_loop(kind, made, given, takes, MemorySettings(3))
    assert difference(got[0], expected[0]) < 1e-12


@pytest.mark.parametrize("capacity", [None, 9])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_without_a_memory_a_call_sees_itself_only(kind: str, capacity: int | None) -> None:
    made, given, takes = mixer(kind, mem_len=0), rows([7]), [[3], [1], [1], [2]]
    got, state = feed(made, given, takes, made.init_state(1, capacity))
    assert difference(got[0], by_loop(kind, made, given, takes)[0]) < 1e-12
    alone = made(given[0][None, 3:4], None, layout(1)).y
    assert difference(got[0][3:4], alone[0]) < 1e-12
    assert all(t.shape[1] <= 1 for t in state.get("slots", state).values() if t.dim() > 1)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("capacity", [None, 9])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_what_stands_in_a_reset_row_is_never_read(kind: str, capacity: int | None, steps: int) -> None:
    made, x = mixer(kind), torch.stack(rows([4, 4], seed=3))[:, :steps]
    _, state = feed(made, rows([12, 12]), [[4, 4]] * 3, made.init_state(2, capacity))
    done = torch.tensor([True, False])
    state = reset_rows(state, done)
    held = state["slots"] if capacity else {"memory": state["memory"]}
    for tensor in held.values():
        tensor[0] = 1e6
    y, state, *_ = made(x, state, layout(steps))
    assert difference(y[0], made(x[:1], None, layout(steps)).y[0]) < 1e-12
    assert difference(y[1], made(x[1:], None, layout(steps)).y[0]) > 1e-3


@pytest.mark.parametrize("capacity", [None, 9])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_padding_is_finite_and_changes_nothing(kind: str, capacity: int | None) -> None:
    made, lengths = mixer(kind), torch.tensor([3, 0])
    x = torch.stack(rows([3, 3]))
    state = made.init_state(2, capacity)
    for _ in range(4):
        y, state, *_ = made(x, state, layout(3, lengths))
        assert y.isfinite().all()
    assert state["length"].tolist() == [12 if capacity else 5, 0]
    y, _, *_ = made(x, state, layout(3))
    assert difference(y[1], made(x[1:], None, layout(3)).y[0]) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_autocast(kind: str) -> None:
    torch.manual_seed(0)
    made, x = mixer(kind).float(), torch.stack(rows([8, 8])).float()
    expected = made(x, made.init_state(2), layout(8))
    exact = torch.autograd.grad(expected.y.square().mean(), list(made.parameters()))
    with torch.autocast("cpu", torch.bfloat16):
        got = made(x, made.init_state(2), layout(8))
        assert got.y.dtype == torch.bfloat16
        narrow = torch.autograd.grad(got.y.square().mean(), list(made.parameters()))
        kept = made.init_state(2, 50)
        with torch.no_grad():
            for part in (x[:, :5], x[:, 5:6], x[:, 6:]):
                last, kept, *_ = made(part, kept, layout(part.shape[1]))
    assert difference(got.y.float(), expected.y) < 0.03
    assert difference(last.float(), expected.y[:, 6:]) > 1e-4  # a memory of 5: not the whole past
    for one, other in zip(narrow, exact, strict=True):
        assert one.dtype == torch.float32
        assert difference(one, other) < 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_for_training(kind: str) -> None:
    made, x = mixer(kind, dropout=0.5), torch.stack(rows([6]))
    assert torch.equal(made(x, None, layout(6)).y, made(x, None, layout(6)).y)
    made.train()
    assert not torch.equal(made(x, None, layout(6)).y, made(x, None, layout(6)).y)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input(kind: str) -> None:
    made = mixer(kind)
    with pytest.raises(ValueError, match="causal"):
        made(torch.zeros(1, 3, D_MODEL).double(), None, Layout(False))
    with pytest.raises(ValueError, match=r"mem_len.*0, not -1"):
        mixer(kind, mem_len=-1)
    with pytest.raises(ValueError, match=r"n_heads 5.*d_model 12"):
        RelativeAttention(12, 5) if kind == "relative" else ShawAttention(12, 5, max_distance=3)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_of_any_width(kind: str) -> None:
    made = RelativeAttention(12, 5, d_head=3) if kind == "relative" else ShawAttention(12, 5, 4, d_head=3)
    assert made(torch.randn(2, 6, 12), None, layout(6)).y.shape == (2, 6, 12)
    assert valid(torch.tensor([2]), 3).tolist() == [[True, True, False]]
