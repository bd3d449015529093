"""Activation memory of a reversible stack does not grow with depth, nor that of a chunked one with its width."""

import pytest
import torch
from torch import nn

from repro.nn import (
    Blocks,
    CrossAttention,
    FeedForward,
    FullAttention,
    Layout,
    PreNorm,
    ResidualStack,
    ReversibleStack,
)
from repro.tasks.costs.peak import peak_bytes

WIDTH, LENGTH = 16, 768


def peak(kind: type, layers: int, d_ff: int = 64, chunk: int | None = None, cross: bool = False) -> int:
    """Bytes of one training step beyond parameters and gradients, which are there before."""
    blocks = Blocks(
        mixers=[lambda d: FullAttention(d, 2)],
        feed_forward=lambda d: FeedForward(d, d_ff, chunk=chunk),
        sublayer=PreNorm,
        cross=lambda d: CrossAttention(d, 2),
        stack=kind if kind is ResidualStack else lambda *a: ReversibleStack(*a, join="mean"),  # type: ignore[arg-type]
    )
    stack = blocks.build(WIDTH, layers, cross)
    for parameter in stack.parameters():
        parameter.grad = torch.zeros_like(parameter)
    x, memory = (torch.randn(1, LENGTH, WIDTH, requires_grad=True) for _ in range(2))

    def work() -> None:
        state = stack.attend_to(memory, None) if cross else None
        stack(x, state, Layout(True)).y.square().sum().backward()

    return peak_bytes(work)


def test_depth_costs_no_activations() -> None:
    shallow, deep = (peak(ReversibleStack, n, cross=True) for n in (6, 24))
    assert deep < 1.15 * shallow
    shallow, deep = (peak(ResidualStack, n, cross=True) for n in (2, 6))
    assert deep > 2.0 * shallow  # the control


def test_autocast_keeps_no_casts_of_weights() -> None:
    x, peaks = torch.randn(1, 4, 64), []
    for layers in (2, 8):
        parts = [{"feed_forward": PreNorm(FeedForward(64, 512), 64)} for _ in range(layers)]
        stack = ReversibleStack(parts, nn.Identity())
        for parameter in stack.parameters():
            parameter.grad = torch.zeros_like(parameter)

        def work(stack: ReversibleStack = stack) -> None:
            with torch.autocast("cpu", torch.bfloat16):
                stack(x, None, Layout(True)).y.square().sum().backward()

        peaks.append(peak_bytes(work))
    assert peaks[1] - peaks[0] < 6 * 2 * 64 * 512  # a quarter of the casts of six more layers


@pytest.mark.parametrize("kind", [ResidualStack, ReversibleStack])
def test_chunks_of_a_wide_layer_exist_one_at_a_time(kind: type) -> None:
    whole, cut = (peak(kind, 1, 1024, chunk) for chunk in (None, 64))
    inner = 4 * LENGTH * 1024
    assert whole > 2 * inner
    assert cut < 0.7 * inner


def test_a_chunked_layer_is_computed_twice_only() -> None:
    for chunk in (None, 3):
        stack = ReversibleStack([{"feed_forward": PreNorm(FeedForward(8, 4, chunk=chunk), 8)}], nn.Identity())
        sizes: list[int] = []
        inner = stack.layers[0]["feed_forward"].body.inner  # type: ignore[index]
        inner.register_forward_hook(lambda _, given, __, sizes=sizes: sizes.append(given[0].shape[1]))
        stack(torch.randn(1, 7, 8), None, Layout(True)).y.sum().backward()
        assert sizes == ([7] if chunk is None else [3, 3, 1]) * 2
