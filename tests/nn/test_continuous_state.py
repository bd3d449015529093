"""Requirements of a mixer with a continuous memory, and promises about its state and gradients."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from repro.nn import (
    Blocks,
    CompressiveAttention,
    ConvolutionCompression,
    FeedForward,
    InfusedAttention,
    Layout,
    MeanCompression,
    NormedLSTM,
    PreNorm,
    RelativeAttention,
)
from repro.nn.attention.compressed.pieces import pieces
from repro.nn.attention.continuous import ContinuousMemory, ContinuousSignal
from repro.nn.mixer import detach, leaves, nbytes
from repro.nn.settings import CallSettings, MemorySettings, has_memory
from tests.nn.mixers import difference, randomise
from tests.nn.test_continuous_memory import PLAIN, SHORT, STICKY, D, build, in_calls, tokens
from tests.nn.test_laws import TOLERANCE


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="not 0"):
        ContinuousMemory(D, SHORT["full"], 0, PLAIN)
    with pytest.raises(ValueError, match="NormedLSTM"):
        ContinuousMemory(D, NormedLSTM, 3, PLAIN)
    with pytest.raises(ValueError, match="causal"):
        build("full", PLAIN)(torch.zeros(1, 2, D).double(), None, Layout(False))


def test_a_short_term_mixer_with_an_auxiliary_loss_is_refused() -> None:
    short = partial(CompressiveAttention, n_heads=2, mem_len=4, compressed_len=4)
    learned, plain = partial(ConvolutionCompression, rate=2), partial(MeanCompression, rate=2)
    with pytest.raises(
        ValueError, match=r"CompressiveAttention.*reconstruction: 0.*compression without weights"
    ):
        ContinuousMemory(D, partial(short, compression=learned), 3, PLAIN)
    ContinuousMemory(D, partial(short, compression=learned, reconstruction=0.0), 3, PLAIN)
    ContinuousMemory(D, partial(short, compression=plain), 3, PLAIN)


@pytest.mark.parametrize("signal", [PLAIN, STICKY], ids=["plain", "sticky"])
@pytest.mark.parametrize("short", SHORT)
@torch.no_grad()
def test_a_state_stops_growing(short: str, signal: ContinuousSignal) -> None:
    mixer, x = build(short, signal), torch.stack(tokens([60, 60]))
    for sizes, capacity in (([3] * 20, None), ([1] * 60, None), ([1] * 60, 60), ([7] * 8 + [4], None)):
        state, result = mixer.init_state(2, capacity), []
        for part in x.split(sizes, dim=1):
            state = mixer(part, state, Layout(True)).state
            result.append(nbytes(state))
        assert max(result[len(result) // 2 :]) <= max(result[: len(result) // 2])
    assert all(len(leaf) == 2 for leaf in leaves(state))


@torch.no_grad()
def test_any_capacity_is_enough_for_a_stream() -> None:
    mixer, x = build("full", PLAIN), torch.stack(tokens([24, 24]))
    for sizes in ([1] * 24, [2] * 12):
        roomy, _, _ = in_calls(mixer, x, sizes, mixer.init_state(2, capacity=40))
        got, _, _ = in_calls(mixer, x, sizes, mixer.init_state(2, capacity=2))
        assert difference(got, roomy) < TOLERANCE


@pytest.mark.parametrize("short", SHORT)
def test_every_parameter_has_a_gradient_at_every_step(short: str) -> None:
    mixer, x = build(short, STICKY), torch.stack(tokens([18, 18])).detach()
    mixer(x[:, :3], None, Layout(True)).y.sum().backward()
    assert all(p.grad is not None for p in mixer.parameters())
    state = mixer.init_state(2)
    for part in x.split([3, 2, 1, 3, 3, 3, 3], dim=1):
        mixer.zero_grad()
        mixed = mixer(part, detach(state), Layout(True))
        (mixed.y.sum() + mixed.aux.sum()).backward()
        state = mixed.state
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in mixer.parameters())
    assert all(bool(p.grad.any()) for p in mixer.long.parameters())


@pytest.mark.parametrize("capacity", [None, 40])
@pytest.mark.parametrize("short", ["full", "relative"])
def test_no_number_is_looked_at(short: str, capacity: int | None) -> None:
    """On the meta device there is none."""
    with torch.device("meta"):
        mixer = ContinuousMemory(D, SHORT[short], 3, STICKY)
        x, state = torch.randn(2, 12, D, requires_grad=True), mixer.init_state(2, capacity)
        lengths = torch.ones(2, dtype=torch.long)
    with torch.set_grad_enabled(capacity is None):
        for part in (x, x[:, :2], x[:, :3]):
            mixed = mixer(part, state, Layout(True))
            state = mixed.state
        mixed = mixer(x[:, :3], state, Layout(True, lengths=lengths))
    assert mixed.y.shape == (2, 3, D)
    assert mixed.aux.shape == (2,)
    if capacity is None:
        (mixed.y.sum() + mixed.aux.sum()).backward()
        assert x.grad is not None


@torch.no_grad()
def test_the_memory_holds_what_is_before_or_behind_a_norm() -> None:
    x = torch.stack(tokens([24, 24]))
    norm = randomise(nn.LayerNorm(D).double())
    before, behind = build("full", PLAIN), build("full", replace(PLAIN, normed=True))

    def run(mixer: Any, stream: bool) -> torch.Tensor:
        state, result = mixer.init_state(2), []
        for part in x.split(3, dim=1):
            layout = Layout(True, stream=part, norm=norm) if stream else Layout(True)
            mixed = mixer(norm(part), state, layout)
            state = mixed.state
            result.append(mixed.y)
        return torch.cat(result, dim=1)

    expected = run(before, False)  # knows no stream: remembers its inputs, which are normed
    assert difference(run(behind, True), expected) < 1e-12
    assert difference(run(before, True), expected) > 1e-3


@torch.no_grad()
def test_settings_of_a_call_reach_the_short_term_memory() -> None:
    built = build("infused", PLAIN)
    shorter = ContinuousMemory(D, lambda d: InfusedAttention(d, 2), 3, PLAIN).double()
    shorter.load_state_dict(built.state_dict())
    x = torch.stack(tokens([15, 15]))
    settings = CallSettings(memory=MemorySettings(0))
    state, result = built.init_state(2, None, settings), []
    for part in x.split(3, dim=1):
        mixed = built(part, state, Layout(True, settings=settings))
        state = mixed.state
        result.append(mixed.y)
    assert difference(torch.cat(result, dim=1), in_calls(shorter, x, [3] * 5)[0]) < 1e-12
    assert difference(torch.cat(result, dim=1), in_calls(built, x, [3] * 5)[0]) > 1e-3


def test_layers_share_what_their_short_term_mixers_share() -> None:
    maker = lambda d: ContinuousMemory(d, lambda width: RelativeAttention(width, 2, mem_len=4), 3, PLAIN)  # noqa: E731
    stack = Blocks([maker], partial_feed_forward, PreNorm).build(D, 2)
    first, second = (layer["mix"].body for layer in stack.layers)  # type: ignore[index]
    assert first.short.content_bias is second.short.content_bias
    assert first.long.key.weight is not second.long.key.weight
    assert has_memory(stack)


def partial_feed_forward(d: int) -> nn.Module:
    return FeedForward(d, 8)


def test_a_stack_adds_up_the_losses_of_its_layers() -> None:
    torch.manual_seed(0)
    maker = lambda d: ContinuousMemory(d, SHORT["full"], 3, PLAIN)  # noqa: E731
    stack = Blocks([maker], partial_feed_forward, PreNorm).build(D, 2).double().eval()
    state, x = stack.init_state(2), torch.stack(tokens([9, 9])).detach()
    for part in x.split(3, dim=1):
        mixed = stack(part, state, Layout(True))
        state = mixed.state
    losses = []
    hook = [
        layer["mix"].body.register_forward_hook(lambda _, __, found: losses.append(found.aux))  # type: ignore[index]
        for layer in stack.layers
    ]
    aux = stack(x[:, :3], state, Layout(True)).aux
    assert len(losses) == len(hook) == 2
    assert difference(aux, losses[0] + losses[1]) < 1e-12
    assert bool((aux > 0).all())


@torch.no_grad()
def test_autocast_is_near() -> None:
    mixer, x = build("full", STICKY).float(), torch.stack(tokens([24, 24])).float()
    exact, _, _ = in_calls(mixer, x, [3] * 8)
    with torch.autocast("cpu", torch.bfloat16):
        got, state, _ = in_calls(mixer, x, [3] * 8)
    assert state["coefficients"].dtype == torch.float32
    # Draws may differ, so that only the first updates can be compared.
    assert (got[:, :6].float() - exact[:, :6]).abs().mean() < 0.05 * exact[:, :6].abs().mean()
    assert bool(got.isfinite().all())


def test_no_weight_on_the_divergence_gives_no_loss() -> None:
    mixer = build("full", replace(PLAIN, kl_weight=0.0))
    assert mixer(torch.zeros(1, 9, D).double(), None, Layout(True)).aux is None


def test_a_layout_is_cut_with_its_tokens() -> None:
    x, where = torch.randn(2, 7, D), torch.arange(14).view(2, 7)
    given = Layout(True, torch.tensor([0, 7]), torch.tensor([7, 2]), where, stream=2 * x, last=1)
    result = list(pieces(x, given, 3))
    assert torch.equal(torch.cat([part for part, _ in result], dim=1), x)
    assert [layout.last for _, layout in result] == [None] * 3
    assert [layout.start.tolist() for _, layout in result] == [[0, 7], [3, 10], [6, 13]]  # type: ignore[union-attr]
    assert [layout.lengths.tolist() for _, layout in result] == [[3, 2], [3, 0], [1, 0]]  # type: ignore[union-attr]
    for part, layout in result:
        assert torch.equal(layout.stream, 2 * part)  # type: ignore[arg-type]
    assert torch.equal(torch.cat([layout.positions for _, layout in result], dim=1), where)  # type: ignore[misc]
