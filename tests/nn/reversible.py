"""Reversible stacks of everything they may hold, and the same coupling written plainly, for torch to differentiate."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from repro.nn import (
    CrossAttention,
    FeedForward,
    FullAttention,
    Layout,
    MixerOutput,
    PreNorm,
    Residual,
    ReversibleStack,
    State,
    Sublayer,
)
from tests.nn.mixers import difference, randomise

D, STEPS = 8, 7
LAYOUT = Layout(True, positions=torch.arange(STEPS))


class Scored(nn.Module):
    """Mixes by a running mean, costs something, shares its matrix, and holds a weight that it never uses."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)
        self.unused = nn.Parameter(torch.ones(3))

    def init_state(self, batch: int, capacity: int | None = None, settings: object = None) -> State:
        return None

    def share_with(self, first: "Scored") -> None:
        self.proj.weight = first.proj.weight

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        seen = x.cumsum(1) / torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
        return MixerOutput(self.proj(seen).tanh(), state, seen.square().mean((1, 2)) * self.proj.bias.sum())


def layer(cross: bool = False, dropout: float = 0.3, chunk: int | None = None) -> dict[str, Sublayer]:
    """A layer of attention, or of two sublayers more."""
    bodies: dict[str, nn.Module] = {"mix": FullAttention(D, 2, dropout=dropout)}
    if cross:
        bodies["cross"] = CrossAttention(D, 2, dropout=dropout)
    bodies["feed_forward"] = FeedForward(D, 12, nn.GELU, dropout=dropout, chunk=chunk)
    return {name: PreNorm(body, D, dropout) for name, body in bodies.items()}


def scored_layer() -> dict[str, Sublayer]:
    """One sublayer of a single, other kind."""
    return {"mix": Residual(Scored(D), D, 0.2)}


def build(layers: list[dict[str, Sublayer]], join: Any = "concat", norm: bool = True) -> ReversibleStack:
    """A stack in float64 with random weights."""
    torch.manual_seed(0)
    width = 2 * D if join == "concat" else D
    stack = ReversibleStack(layers, nn.LayerNorm(width) if norm else nn.Identity(), join)
    randomise(stack.double())
    return stack


def everything(join: Any = "concat", chunk: int | None = None) -> ReversibleStack:
    """Layers with cross-attention and of other kinds, an odd number of sublayers, shared and frozen weights."""
    layers = [layer(True, chunk=chunk), scored_layer(), layer(True, chunk=chunk), scored_layer()]
    for one in layers[1::2]:  # every layer's cross-attention is asked for
        one["cross"] = PreNorm(CrossAttention(D, 2), D, 0.1)
    stack = build(layers, join)
    first, second = (stack.layers[depth]["mix"].body for depth in (1, 3))  # type: ignore[index]
    second.share_with(first)
    stack.layers[0]["feed_forward"].body.inner.weight.requires_grad_(False)  # type: ignore[index]
    return stack


def naive(stack: ReversibleStack, x: Tensor, layout: Layout, memory: Tensor | None = None) -> MixerOutput:
    """Computes the output of the stack without undoing steps."""
    one = two = x
    losses = []
    for parts in stack.layers:
        for name, sublayer in parts.items():  # type: ignore[operator,union-attr]
            past = sublayer.body.attend_to(memory, None) if name == "cross" else None
            cut: Callable[[int], list[slice]] = getattr(sublayer.body, "pieces", lambda n: [slice(0, n)])
            result = [sublayer.branch(two[:, s], past, layout) for s in cut(x.shape[1])]
            losses += [mixed.aux for mixed in result if mixed.aux is not None]
            one, two = two, one + torch.cat([mixed.y for mixed in result], 1)
    joined = torch.cat([one, two], -1) if stack.d_out(D) == 2 * D else 0.5 * (one + two)
    return MixerOutput(stack.final_norm(joined), None, torch.stack(losses).sum(0) if losses else None)


def inputs(*shape: int, seed: int = 1) -> Tensor:
    """Random vectors that want a gradient."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def objective(mixed: MixerOutput) -> Tensor:
    """A scalar that treats no two outputs alike."""
    weight = torch.randn(mixed.y.shape, generator=torch.Generator().manual_seed(5), dtype=mixed.y.dtype)
    loss = (mixed.y * weight).sum()
    return loss if mixed.aux is None else loss + (mixed.aux * torch.arange(1.0, len(mixed.aux) + 1)).sum()


def grads(loss: Tensor, stack: nn.Module, *others: Tensor) -> dict[str, Tensor | None]:
    """Gradients as ``backward`` leaves them, by name."""
    stack.zero_grad()
    for tensor in others:
        tensor.grad = None
    loss.backward()
    result = {name: parameter.grad for name, parameter in stack.named_parameters()}
    return result | {f"input {i}": tensor.grad for i, tensor in enumerate(others)}


def same(got: dict[str, Tensor | None], wanted: dict[str, Tensor | None], tolerance: float = 1e-12) -> None:
    assert got.keys() == wanted.keys()
    for name, grad in wanted.items():
        if grad is None:
            assert got[name] is None, name
        else:
            assert got[name] is not None, name
            assert difference(got[name], grad) < tolerance, name  # type: ignore[arg-type]
