"""Watched continuous memories: which token lies where, where attention falls, what is drawn; and nothing changes."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn import ContinuousMemory, InfusedAttention, Layout
from repro.nn.attention.continuous import ContinuousSignal, memory
from repro.nn.attention.continuous.capture import PLACES, MemoryCapture, capture_memories

D, H, BLOCK, TAU, BINS = 6, 2, 4, 0.6, 7
PLAIN = ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=50, tau=TAU, ridge=0.3)
STICKY = ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=9, tau=TAU, ridge=0.3, bins=BINS)
PLACE = (torch.arange(PLACES) + 0.5) / PLACES


def build(signal: ContinuousSignal) -> ContinuousMemory:
    torch.manual_seed(0)
    made = ContinuousMemory(D, lambda d: InfusedAttention(d, H, mem_len=3), BLOCK, signal)
    return made.double().eval()


@torch.no_grad()
def feed(mixer: ContinuousMemory, x: Tensor, size: int) -> tuple[MemoryCapture, list[Any], Tensor]:
    """Returns the captures, the states after every call, and all outputs."""
    state, states, result = mixer.init_state(len(x)), [], []
    with capture_memories(mixer) as captures:
        for part in x.split(size, dim=1):
            y, state, *_ = mixer(part, state, Layout(True))
            states.append(state)
            result.append(y)
    return captures[""], states, torch.cat(result, 1)


def row(steps: int) -> Tensor:
    return torch.randn(1, steps, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def contracted(place: float, updates: int) -> float:
    """The token at a place after so many updates at evenly spaced positions, in closed form."""
    age = 0
    while age < updates - 1 and place <= TAU ** (age + 1):
        age += 1
    within = place / TAU**age
    first = age == updates - 1
    return BLOCK * (updates - 1 - age) + BLOCK * (within if first else (within - TAU) / (1 - TAU))


@pytest.mark.parametrize("size", [1, 4, 30])
def test_blocks_lie_where_they_were_contracted_to(size: int) -> None:
    capture, states, _ = feed(build(PLAIN), row(30), size)
    updates = int(states[-1]["updates"])
    assert updates == 6
    assert capture.tokens is not None
    expected = torch.tensor([contracted(place, updates) for place in PLACE.tolist()])
    assert float((capture.tokens + 0.5 - expected).abs().max()) < 1, "to a token"
    blocks = capture.tokens // BLOCK
    ends = [float(PLACE[blocks <= block][-1]) for block in range(updates - 1)]
    assert ends == pytest.approx([TAU**k for k in range(updates - 1, 0, -1)], abs=0.02)


def test_a_sticky_memory_holds_what_it_drew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Tensor, Tensor]] = []
    real = memory.draw_bins

    def spy(mass: Tensor, *given: Any) -> Tensor:
        bins = real(mass, *given)
        drawn.append((mass[0].clone(), bins[0]))
        return bins

    monkeypatch.setattr(memory, "draw_bins", spy)
    capture, _, _ = feed(build(STICKY), row(30), 3)

    def token(place: float, update: int) -> int:
        if update == 0:
            return int(place * BLOCK)
        if place > TAU:
            return update * BLOCK + int((place - TAU) / (1 - TAU) * BLOCK)
        sample = min(math.ceil(place / TAU * STICKY.samples), STICKY.samples) - 1
        return token((int(drawn[update][1][sample]) + 0.5 / PLACES) / BINS, update - 1)

    assert capture.tokens is not None
    assert capture.tokens.tolist() == [token(place, len(drawn) - 1) for place in PLACE.tolist()]
    mass, bins = drawn[-1]
    assert capture.mass is not None
    assert capture.draws is not None
    torch.testing.assert_close(capture.mass, mass)
    assert capture.draws.tolist() == [int((bins == i).sum()) for i in range(BINS)]


def test_the_density_is_that_of_the_last_queries() -> None:
    mixer = build(PLAIN)
    capture, states, _ = feed(mixer, row(30), 4)  # the last call has two queries
    read = mixer.long(
        states[-1]["coefficients"], mixer.short.qkv(row(30)[:, -2:])[..., :D].unflatten(-1, (H, -1))
    )
    density = capture.density(50)
    assert density.shape == (H, 2, 50)
    centre = (torch.arange(50, dtype=torch.float64) + 0.5) / 50
    expected = torch.distributions.Normal(read.mean[0, ..., None], read.variance[0, ..., None].sqrt())
    torch.testing.assert_close(density, expected.log_prob(centre).exp(), rtol=1e-3, atol=1e-3)


def test_capturing_changes_nothing_and_leaves_nothing() -> None:
    mixer, x = build(STICKY), row(30)
    _, states, y = feed(mixer, x, 4)
    again = mixer(x, mixer.init_state(1), Layout(True))
    torch.testing.assert_close(again.y, y)
    torch.testing.assert_close(again.state["attended"], states[-1]["attended"])
    assert "update" not in vars(mixer.long)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in mixer.modules())


def test_another_row_begins_anew_and_several_are_refused() -> None:
    mixer = build(PLAIN)
    with torch.no_grad(), capture_memories(mixer) as captures:
        for steps in (30, 12):
            mixer(row(steps), mixer.init_state(1), Layout(True))
        assert captures[""].tokens is not None
        assert int(captures[""].tokens.max()) < BLOCK * 2
        mixer(row(2), None, Layout(True))
        assert captures[""].mean is None
        with pytest.raises(ValueError, match="2"):
            mixer(row(4).expand(2, -1, -1), None, Layout(True))
