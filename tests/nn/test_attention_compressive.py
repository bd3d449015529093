"""The compressive memory: against the naive loop with compressed entries in play, and what its loss may touch."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn import Blocks, Layout, PreNorm
from repro.nn.attention.compressed.attention import CompressiveAttention
from repro.nn.attention.compressed.compression import (
    Compression,
    ConvolutionCompression,
    MaxCompression,
    MeanCompression,
)
from repro.nn.mixer import detach, reset_rows
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings, has_memory
from tests.nn.mixers import D_MODEL, difference, even_takes, feed, randomise
from tests.nn.reference_compressive import by_loop

KINDS: dict[str, Callable[[int], Compression]] = {
    "mean": partial(MeanCompression, rate=2),
    "max": partial(MaxCompression, rate=3),
    "convolution": partial(ConvolutionCompression, rate=3),
}
SIZES: dict[str, Any] = {"mem_len": 4, "compressed_len": 2}
LENGTHS = [15, 17, 8]
TAKES = [[4, 3, 0], [1, 7, 1], [0, 1, 3], [7, 3, 1], [3, 3, 3]]


class Sublayer(PreNorm):
    """A pre-norm sublayer that can be fed like a mixer."""

    def init_state(self, batch: int, capacity: int | None = None, settings: Any = AS_BUILT) -> Any:
        return self.body.init_state(batch, capacity, settings)  # type: ignore[operator]


def mixer(kind: str = "convolution", normed: bool = False, **options: Any) -> Any:
    torch.manual_seed(0)
    made: Any = CompressiveAttention(
        D_MODEL, 2, **SIZES | {"d_head": 5, "compression": KINDS[kind]} | options
    )
    made = Sublayer(made, D_MODEL, dropout=0.0) if normed else made
    return randomise(made.double().eval())


def rows(lengths: list[int] = LENGTHS) -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randn(n, D_MODEL, generator=draw, dtype=torch.float64) for n in lengths]


def filled(made: Any, given: list[Tensor], capacity: int | None = None) -> Any:
    """The state after twelve tokens of each row: with blocks of 3, six in the memory and two compressed entries."""
    return feed(made, given, [[4] * len(given)] * 3, made.init_state(len(given), capacity))[1]


def trained(made: Any, given: list[Tensor], takes: list[list[int]]) -> tuple[list[Tensor], list[Tensor], Any]:
    """Feeds calls as :func:`tests.nn.mixers.feed`, in training, with each call's auxiliary losses."""
    made.train()
    state, outputs, losses = made.init_state(len(given)), [[] for _ in given], []  # type: ignore[var-annotated]
    at = [0] * len(given)
    for take in takes:
        x = torch.full((len(given), max(take), D_MODEL), 9.0, dtype=torch.float64)
        for b, n in enumerate(take):
            x[b, :n] = given[b][at[b] : at[b] + n]
        y, state, aux, _ = made(x, state, Layout(True, torch.tensor(at), torch.tensor(take)))
        losses.append(aux)
        for b, n in enumerate(take):
            outputs[b].append(y[b, :n])
            at[b] += n
    return [torch.cat(parts) for parts in outputs], losses, state


def same(got: list[Tensor], wanted: list[Tensor]) -> None:
    for one, other in zip(got, wanted, strict=True):
        assert difference(one, other) < 1e-12


@pytest.mark.parametrize("normed", [False, True], ids=["alone", "pre-norm"])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_losses_and_every_gradient_equal_the_loop(kind: str, normed: bool) -> None:
    made, given = mixer(kind, normed, reconstruction=0.7), [row.requires_grad_() for row in rows()]
    names, parameters = zip(*made.named_parameters(), strict=True)
    got, losses, state = trained(made, given, TAKES)
    target, expected, ended = by_loop(made, given, TAKES)
    same(got, target)
    both = [torch.stack([(y**2).sum() for y in outputs]).sum() for outputs in (got, target)]
    if kind == "convolution":
        same(losses, expected)
        weights = torch.linspace(1.0, 9.0, 15, dtype=torch.float64).view(5, 3)
        both = [
            both[0] + (torch.stack(losses) * weights).sum(),
            both[1] + (torch.stack(expected) * weights).sum(),
        ]
    else:
        assert losses == [None] * len(TAKES)
    result, right = (torch.autograd.grad(loss, [*given, *parameters]) for loss in both)
    for name, one, other in zip([*LENGTHS, *names], result, right, strict=True):
        assert difference(one, other) < 1e-12, name
    held = state["past"]
    for b, row in enumerate(ended):
        assert state["length"][b] == len(row.memory)
        assert state["compressed_length"][b] == len(row.compressed) > 0
        same(list(held["memory"][b, -len(row.memory) :]), row.memory)
        same(list(held["compressed"][b, -len(row.compressed) :]), row.compressed)


@pytest.mark.parametrize("takes", [TAKES, even_takes([9, 9, 9], 9), even_takes([13] * 3, 1)], ids=str)
@pytest.mark.parametrize("memory", [None, MemorySettings(2), MemorySettings(5, clamp_len=3)], ids=str)
@pytest.mark.parametrize("normed", [False, True], ids=["alone", "pre-norm"])
@torch.no_grad()
def test_decoding_in_place_equals_the_loop(
    takes: list[list[int]], memory: MemorySettings | None, normed: bool
) -> None:
    made, given, settings = mixer("max", normed), rows([17] * 3), CallSettings(memory)
    got, _ = feed(made, given, takes, made.init_state(3, 50, settings), settings=settings)
    same(got, by_loop(made, given, takes, memory)[0])


@torch.no_grad()
def test_a_smaller_capacity_is_a_shorter_memory() -> None:
    made, given, takes = mixer(), rows([16]), [[5], [1], [4], [1], [5]]
    got, _ = feed(made, given, takes, made.init_state(1, 2))
    same(got, by_loop(made, given, takes, MemorySettings(2))[0])


@pytest.mark.parametrize("lengths", [True, False], ids=["lengths", "whole rows"])
@torch.no_grad()
def test_the_memories_do_not_depend_on_how_a_sequence_is_cut(lengths: bool) -> None:
    made, x = mixer(), torch.stack(rows([15, 15]))
    ends = []
    for sizes in ([15], [1] * 15, [4, 4, 4, 3], [2, 11, 2]):
        state = made.init_state(2)
        for part in x.split(sizes, dim=1):
            count = torch.full((2,), part.shape[1]) if lengths else None
            state = made(part, state, Layout(True, lengths=count)).state
        assert state["length"].tolist() == [6, 6]
        assert state["compressed_length"].tolist() == [2, 2]
        assert state["past"]["memory"].shape[1] == 6
        ends.append(state["past"])
    for end in ends:
        assert torch.equal(end["memory"], x[:, 9:])
        assert difference(end["compressed"], ends[0]["compressed"]) < 1e-12


@pytest.mark.parametrize("capacity", [None, 20])
@pytest.mark.parametrize("chunks", [1, 4, 9])
@torch.no_grad()
def test_chunks_equal_the_whole_while_nothing_leaves_the_memory(chunks: int, capacity: int | None) -> None:
    made, given = mixer(mem_len=12), rows([12, 9])
    got, _ = feed(made, given, even_takes([12, 9], chunks), made.init_state(2, capacity))
    same(got, [made(row[None], None, Layout(True)).y[0] for row in given])


@pytest.mark.parametrize("token", [0, 3, 6])
@torch.no_grad()
def test_a_token_changes_no_output_before_it(token: int) -> None:
    made, x = mixer(), torch.stack(rows([7]))
    state, other = filled(made, rows([12])), x.clone()
    other[:, token] += 3.0
    before, after = (made(inputs, state, Layout(True)).y for inputs in (x, other))
    assert torch.equal(before[:, :token], after[:, :token])
    assert difference(before[:, token], after[:, token]) > 1e-3


@torch.no_grad()
def test_control_what_was_compressed_is_seen_at_its_place_and_what_fell_out_is_not() -> None:
    made, given, x = mixer(), rows([12]), torch.stack(rows([3]))
    kept = made(x, filled(made, given), Layout(True)).y
    assert filled(made, given)["length"].tolist() == [6]
    for place, seen in ((0, True), (5, True), (6, True), (11, True)):
        other = given[0].clone()
        other[place] += 2.0
        assert (difference(made(x, filled(made, [other]), Layout(True)).y, kept) > 1e-4) == seen
    swapped = filled(made, given)
    swapped["past"]["compressed"] = swapped["past"]["compressed"].flip(1)
    assert difference(made(x, swapped, Layout(True)).y, kept) > 1e-4
    longer = torch.cat([torch.ones(3, D_MODEL, dtype=torch.float64), given[0]])
    state = feed(made, [longer], [[3], [4], [4], [4]], made.init_state(1))[1]
    assert difference(made(x, state, Layout(True)).y, kept) < 1e-12


@pytest.mark.parametrize("capacity", [None, 20])
@torch.no_grad()
def test_a_row_that_starts_anew_has_no_memory_of_either_kind(capacity: int | None) -> None:
    made, x = mixer(), torch.stack(rows([9, 9]))
    state = reset_rows(filled(made, rows([12, 12]), capacity), torch.tensor([True, False]))
    for tensor in state["slots" if capacity else "past"].values():
        assert not tensor[0].any()
        tensor[0] = 1e6
    got, fresh = [], []
    new = made.init_state(1, capacity)
    for part in x.split([4, 1, 4], dim=1):
        y, state, *_ = made(part, state, Layout(True))
        alone, new, *_ = made(part[:1], new, Layout(True))
        got.append(y)
        fresh.append(alone)
    assert difference(torch.cat(got, 1)[0], torch.cat(fresh, 1)[0]) < 1e-12
    assert difference(torch.cat(got, 1)[1], made(x[1:], None, Layout(True)).y[0]) > 1e-3
    assert state["compressed_length"].tolist() == [1, 2]


@pytest.mark.parametrize("normed", [False, True], ids=["alone", "pre-norm"])
def test_the_gradient_of_the_loss_reaches_the_compression_only(normed: bool) -> None:
    made, x = mixer(normed=normed).train(), torch.stack(rows([8])).requires_grad_()
    state = filled(made, rows([12]))
    mixed = made(x, detach(state), Layout(True))
    names, parameters = zip(*made.named_parameters(), strict=True)
    result = torch.autograd.grad(mixed.aux.sum(), [x, *parameters], allow_unused=True, retain_graph=True)
    reached = [
        name for name, grad in zip(["x", *names], result, strict=True) if grad is not None and grad.any()
    ]
    assert [name.removeprefix("body.") for name in reached] == ["compression.convolution.weight"]
    # The task's gradient does not, but is there: a parameter without one would stop DDP.
    result = torch.autograd.grad(
        mixed.y.sum(), [p for n, p in zip(names, parameters, strict=True) if "convolution" in n]
    )
    assert not result[0].any()


def test_when_there_is_a_loss() -> None:
    x, layout = torch.stack(rows([4, 4])), Layout(True, lengths=torch.tensor([4, 1]))
    made = mixer().train()
    assert made(x, None, layout).aux is None
    first = made(x, made.init_state(2), layout)
    assert first.aux.tolist() == [0.0, 0.0]
    second = made(x, first.state, layout)  # the second row has two tokens, fewer than its memory holds
    assert second.aux[0] > 0
    assert second.aux[1] == 0
    assert torch.autograd.grad(second.aux.sum(), made.compression.convolution.weight)[0].isfinite().all()
    assert made.eval()(x, first.state, layout).aux is None
    for other in (mixer("mean"), mixer(reconstruction=0.0)):
        assert other.train()(x, filled(other, rows([12, 12])), layout).aux is None


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("normed", [False, True], ids=["alone", "pre-norm"])
def test_no_value_is_asked_of_the_device(normed: bool, lengths: bool) -> None:
    made = mixer(normed=normed, dropout=0.1).float().to("meta").train()
    state, x = made.init_state(2), torch.randn(2, 7, D_MODEL, device="meta", requires_grad=True)
    layout = Layout(True, lengths=torch.full((2,), 7, device="meta") if lengths else None)
    for _ in range(3):
        mixed = made(x, detach(state), layout)
        state = mixed.state
    (mixed.y.sum() + mixed.aux.mean()).backward()
    assert all(parameter.grad is not None for parameter in made.parameters())


@pytest.mark.parametrize("capacity", [None, 9])
def test_autocast_keeps_the_memories_precise(capacity: int | None) -> None:
    made, x = mixer().float().train(), torch.stack(rows([16, 16])).float()
    exact, narrow = made.init_state(2), made.init_state(2, capacity)
    for part in x.split(4, dim=1):
        expected = made(part, detach(exact), Layout(True))
        with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(capacity is None):
            got = made(part, detach(narrow), Layout(True))
        exact, narrow = expected.state, got.state
    assert got.y.dtype == torch.bfloat16
    assert got.aux.dtype == narrow["slots" if capacity else "past"]["compressed"].dtype == torch.float32
    assert (got.y.float() - expected.y).abs().mean() < 0.05 * expected.y.abs().mean()
    assert difference(got.aux, expected.aux) < 0.05


def test_biases_are_shared_over_layers_and_compressions_are_not() -> None:
    maker = partial(CompressiveAttention, n_heads=2, compression=KINDS["convolution"], **SIZES)
    stack = Blocks([maker], None).build(D_MODEL, 2)
    names = [name for name, _ in stack.named_parameters()]
    assert sum("content_bias" in name for name in names) == 1
    assert sum("convolution" in name for name in names) == 2
    assert has_memory(stack)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mem_len": 0}, "mem_len.*0"),
        ({"mem_len": -3}, "mem_len.*-3"),
        ({"compressed_len": 0}, "compressed_len.*0"),
        ({"reconstruction": -0.5}, r"reconstruction.*-0\.5"),
        ({"reconstruction": float("nan")}, "reconstruction.*nan"),
        ({"compression": partial(MeanCompression, rate=0)}, "rate.*0"),
    ],
    ids=str,
)
def test_bad_settings_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        mixer(**options)


def test_same_length_and_a_layout_without_causality_are_refused() -> None:
    made, settings = mixer(), CallSettings(MemorySettings(4, same_length=True))
    with pytest.raises(ValueError, match="same_length"):
        made.init_state(1, 4, settings)
    with pytest.raises(ValueError, match="same_length"):
        made(rows([3])[0][None], None, Layout(True, settings=settings))
    with pytest.raises(ValueError, match="causal"):
        made(rows([3])[0][None], None, Layout(False))
