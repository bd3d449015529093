"""Requirements of a compressed memory, and promises about its state and gradients."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from repro.nn import (
    Blocks,
    CompressedMemory,
    ContinuousMemory,
    ContinuousSignal,
    Layout,
    PreNorm,
    RelativeAttention,
)
from repro.nn.mixer import detach, leaves, nbytes, reset_rows
from repro.nn.settings import has_memory
from tests.nn.mixers import difference, gradients, randomise
from tests.nn.test_attention_compressed import BLOCK, KINDS, SHORT, D, build, in_calls, tokens
from tests.nn.test_laws import TOLERANCE


@torch.no_grad()
def test_a_state_stops_growing() -> None:
    mixer, x = build(), torch.stack(tokens([60, 60]))
    for sizes, capacity in (([4] * 15, None), ([1] * 60, None), ([1] * 60, 60), ([6] * 10, None)):
        state, result = mixer.init_state(2, capacity), []
        for part in x.split(sizes, dim=1):
            state = mixer(part, state, Layout(True)).state
            result.append(nbytes(state))
        assert max(result[len(result) // 2 :]) <= max(result[: len(result) // 2])
    assert all(len(leaf) == 2 for leaf in leaves(state))


@pytest.mark.parametrize("sizes", [[1] * 24, [3] * 8])
@torch.no_grad()
def test_any_capacity_is_enough_for_a_stream(sizes: list[int]) -> None:
    mixer, x = build(), torch.stack(tokens([24, 24]))
    roomy, _ = in_calls(mixer, x, sizes, mixer.init_state(2, capacity=40))
    assert difference(in_calls(mixer, x, sizes, mixer.init_state(2, capacity=3))[0], roomy) < TOLERANCE


@torch.no_grad()
def test_shapes_of_states_do_not_depend_on_which_rows_have_a_block() -> None:
    """States of micro-batches are joined."""
    mixer, x = build(), torch.stack(tokens([20, 20]))
    states, result = [mixer.init_state(1) for _ in x], []
    for at, part in enumerate(x.split(4, dim=1)):
        if at == 1:
            states[0] = reset_rows(states[0], torch.tensor([True]))
        mixed = [mixer(row[None], state, Layout(True)) for row, state in zip(part, states, strict=True)]
        states = [one.state for one in mixed]
        shapes = [[leaf.shape for leaf in leaves(state)] for state in states]
        assert shapes[0] == shapes[1]
        result.append(mixed[0].y)
    assert states[0]["compressed_length"].tolist() == [3]
    expected, _ = in_calls(mixer, x[:1, 4:], [4] * 4)
    assert difference(torch.cat(result[1:], dim=1), expected) < TOLERANCE


def test_gradients_with_a_state_that_is_detached_between_calls() -> None:
    mixer, x = build().train(), torch.stack(tokens([19, 19])).detach()
    state, reached = mixer.init_state(2), []
    for part in x.split([4, 4, 2, 3, 4, 2], dim=1):
        part.requires_grad_()
        mixed = mixer(part, detach(state), Layout(True))
        state = mixed.state
        result = gradients(mixed.y.sum(), [], mixer)  # none is missing: that would stop DDP
        reached.append(bool(result["compression.convolution.weight"].any()))
        names, parameters = zip(*mixer.named_parameters(), strict=True)
        grads = (
            torch.autograd.grad(mixed.aux.sum(), [part, *parameters], allow_unused=True)
            if reached[-1]
            else []
        )
        touched = [n for n, g in zip(["x", *names], grads, strict=False) if g is not None and g.any()]
        assert touched == ["compression.convolution.weight"] * reached[-1]
        assert bool((mixed.aux > 0).all()) == reached[-1]
    assert reached == [False, True, True, False, True, True]


def test_when_there_is_a_loss() -> None:
    x = torch.zeros(1, 9, D).double()
    assert build().eval()(x, None, Layout(True)).aux is None
    assert build(reconstruction=0.0).train()(x, None, Layout(True)).aux is None


@torch.no_grad()
def test_what_is_compressed_lies_behind_a_norm() -> None:
    mixer, x = build(), torch.stack(tokens([12, 12]))
    norm = randomise(nn.LayerNorm(D).double())
    state, result = mixer.init_state(2), []
    for part in x.split(4, dim=1):
        mixed = mixer(norm(part), state, Layout(True, stream=part, norm=norm))
        state = mixed.state
        result.append(mixed.y)
    assert difference(torch.cat(result, dim=1), in_calls(mixer, norm(x), [4] * 3)[0]) < TOLERANCE


@pytest.mark.parametrize("capacity", [None, 40])
def test_no_number_is_looked_at(capacity: int | None) -> None:
    """On the meta device there is none."""
    with torch.device("meta"):
        mixer = CompressedMemory(D, SHORT["full"], BLOCK, 3, KINDS["convolution"])
        x, state = torch.randn(2, 12, D, requires_grad=True), mixer.init_state(2, capacity)
        lengths = torch.ones(2, dtype=torch.long)
    with torch.set_grad_enabled(capacity is None):
        for part in (x, x[:, :2], x[:, :3]):
            state = mixer(part, state, Layout(True)).state
        mixed = mixer(x[:, :3], state, Layout(True, lengths=lengths))
    assert mixed.y.shape == (2, 3, D)
    assert mixed.aux.shape == (2,)
    if capacity is None:
        (mixed.y.sum() + mixed.aux.sum()).backward()
        assert all(parameter.grad is not None for parameter in (x, *mixer.parameters()))


@pytest.mark.parametrize("capacity", [None, 20])
@torch.no_grad()
def test_autocast_keeps_the_memory_precise(capacity: int | None) -> None:
    mixer, x = build().float(), torch.stack(tokens([16, 16])).float()
    exact, _ = in_calls(mixer, x, [4] * 4)
    with torch.autocast("cpu", torch.bfloat16):
        got, state = in_calls(mixer, x, [4] * 4, mixer.init_state(2, capacity))
    assert got.dtype == torch.bfloat16
    assert state["compressed"].dtype == torch.float32
    assert (got.float() - exact).abs().mean() < 0.05 * exact.abs().mean()


def test_weights_of_the_short_term_mixer_are_named_as_in_a_continuous_memory() -> None:
    other = ContinuousMemory(
        D, SHORT["full"], BLOCK, ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=5)
    )
    names = [{n for n, _ in made.named_parameters() if n.startswith("short.")} for made in (build(), other)]
    assert names[0] == names[1] == {f"short.{n}.{p}" for n in ("qkv", "out") for p in ("weight", "bias")}
    maker = partial(
        CompressedMemory, short_term=SHORT["full"], block=4, compressed_len=2, compression=KINDS["max"]
    )
    assert has_memory(Blocks([maker], None, PreNorm).build(D, 2))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"block": 0}, "block.*0"),
        ({"block": 5}, "5.*2"),
        ({"compressed_len": -1}, "compressed_len.*-1"),
        ({"reconstruction": -0.5}, r"reconstruction.*-0\.5"),
        ({"reconstruction": float("nan")}, "reconstruction.*nan"),
        ({"short_term": lambda d: RelativeAttention(d, 2)}, "RelativeAttention"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, dict) else one,
)
def test_bad_settings_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        build(**options)


def test_a_layout_without_causality_is_refused() -> None:
    with pytest.raises(ValueError, match="causal"):
        build()(torch.zeros(1, 2, D).double(), None, Layout(False))
