"""The laws of mixers as functions, for the tests and for mixers of a plugin (``repro check``). All in float64.

I.   Chunks with a carried state equal the whole, by concatenation with gradients and written in place.
II.  A token changes no output before it.
III. Outputs and gradients equal those of a naive loop, where one is given.

Rows of a state can be reordered and emptied, a forward pass changes no buffer, and padding changes nothing.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from repro.nn.mixer import Layout, leaves, reorder, reset_rows
from repro.nn.settings import AS_BUILT, CallSettings

TOLERANCE = 1e-12  # relative to the larger of 1 and the largest entry
LENGTHS = [19, 19, 11]
REFUSED = (ValueError, NotImplementedError)  # of a use that a mixer is not made for, causal or not
NOT_CAUSAL = "padding: changes nothing in layouts that are not causal"

Loop = Callable[[nn.Module, Tensor, bool, Tensor | None, Sequence[Tensor] | None], Tensor]


class Finding(NamedTuple):
    """One checked law: what was compared, and the largest difference, which must be below :data:`TOLERANCE`."""

    law: str
    difference: float

    @property
    def holds(self) -> bool:
        """Whether the difference is that of rounding; one that is not a number is not."""
        return self.difference < TOLERANCE


def check(mixer: Any, d_model: int, loop: Loop | None = None) -> Iterator[Finding]:
    """Checks the laws of a mixer, whose weights are drawn anew; I to III where it can be causal, else padding alone.

    Args:
        mixer: without dropout; its memory must hold 19 tokens.
        d_model: its width.
        loop: a naive form, called with mixer, ``x (B, T, D)``, True, lengths and None.

    Raises:
        TypeError, ValueError, RuntimeError, AttributeError: what the mixer raises where it breaks the contract.
    """
    torch.manual_seed(0)
    mixer = randomise(mixer.double().eval())
    rows = [torch.randn(n, d_model, dtype=torch.float64).requires_grad_() for n in LENGTHS]
    whole = both_ways = None
    with contextlib.suppress(*REFUSED):
        both_ways = _alone(mixer, rows, causal=False)
    try:
        whole = _alone(mixer, rows, causal=True)
    except REFUSED:
        if both_ways is None:
            raise
    if both_ways is not None:
        layout = Layout(False, None, torch.tensor(LENGTHS), torch.arange(max(LENGTHS)))
        padded = mixer(pad_sequence(rows, batch_first=True, padding_value=9.0), None, layout).y
        yield Finding(NOT_CAUSAL, _largest([y[:n] for y, n in zip(padded, LENGTHS, strict=True)], both_ways))
    if whole is None:
        return
    buffers = [buffer.clone() for buffer in mixer.buffers()]
    target = gradients(weighted(whole), rows, mixer)
    for name, takes in CHUNKS.items():
        for how, capacity in (("by concatenation", None), ("in place", 2 * max(LENGTHS))):
            with torch.set_grad_enabled(capacity is None):
                parts, state = feed(mixer, rows, takes, mixer.init_state(len(rows), capacity))
            if any(tensor.shape[0] != len(rows) for tensor in leaves(state)):
                raise ValueError("a state has a tensor without the batch axis in front")
            yield Finding(f"I: chunks {name} {how}", _largest(parts, whole))
            if capacity is None:
                got = gradients(weighted(parts), rows, mixer)
                yield Finding(
                    f"I: gradients of chunks {name}", max(difference(got[key], target[key]) for key in target)
                )
    yield from _of_rows(mixer, rows, whole)
    x = torch.randn(2, 13, d_model, dtype=torch.float64)
    layout = Layout(True, positions=torch.arange(13))
    for token in (1, 6, 12):
        other = x.clone()
        other[:, token] += 3.0
        with torch.no_grad():
            before = difference(mixer(other, None, layout).y[:, :token], mixer(x, None, layout).y[:, :token])
        yield Finding(f"II: token {token} changes no output before it", before)
    yield Finding("buffers stay as they are", max(map(difference, mixer.buffers(), buffers), default=0.0))
    for steps in (1, 7, 63) if loop else ():
        assert loop is not None
        x = torch.randn(2, steps, d_model, dtype=torch.float64).requires_grad_()
        y, expected = (
            mixer(x, None, Layout(True, positions=torch.arange(steps))).y,
            loop(mixer, x, True, None, None),
        )
        yield Finding(f"III: {steps} tokens equal the loop", difference(y, expected))
        pairs = (gradients(weighted([one]), [x], mixer) for one in (y, expected))
        got, target = next(pairs), next(pairs)
        yield Finding(
            f"III: gradients over {steps} tokens", max(difference(got[key], target[key]) for key in target)
        )


def _alone(mixer: Any, rows: list[Tensor], causal: bool) -> list[Tensor]:
    """The outputs of each row alone and in one piece, without a state."""
    return [mixer(row[None], None, Layout(causal, positions=torch.arange(len(row)))).y[0] for row in rows]


@torch.no_grad()
def _of_rows(mixer: Any, rows: list[Tensor], whole: list[Tensor]) -> Iterator[Finding]:
    """Rows of a state are reordered, as beams are, and emptied, as where a text ends."""
    first = [row[:8] for row in rows]
    order = torch.tensor([2, 0, 1])
    rest = [torch.cat([row, row])[8 : 8 + 3] for row in rows]
    layout = Layout(True, torch.full((3,), 8), None, torch.arange(8, 11))
    for how, capacity in (("", None), (" in place", 32)):
        states = [feed(mixer, first, [[8] * 3], mixer.init_state(3, capacity))[1] for _ in range(3)]
        straight = mixer(torch.stack(rest), states[0], layout).y[order]
        moved = mixer(torch.stack(rest)[order], reorder(states[1], order), layout).y
        yield Finding(f"rows of a state are reordered{how}", difference(moved, straight))
        empty = reset_rows(states[2], torch.tensor([True, False, True]))
        parts, _ = feed(mixer, rows, [[8, 0, 8]], empty)
        yield Finding(
            f"rows of a state are emptied{how}", _largest(parts, [whole[0][:8], whole[1][:0], whole[2][:8]])
        )


def _largest(some: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    return max(map(difference, some, others))


def weighted(outputs: Sequence[Tensor]) -> Tensor:
    """A scalar that treats no two outputs alike."""
    generator = torch.Generator().manual_seed(5)
    sums = [(y * torch.randn(y.shape, generator=generator, dtype=y.dtype)).sum() for y in outputs]
    return torch.stack(sums).sum()


def randomise(module: nn.Module) -> nn.Module:
    """Random normal parameters, norms' gains around 1."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.normal_(std=0.4)
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1.0)
    return module


def gradients(loss: Tensor, inputs: Sequence[Tensor], module: nn.Module) -> dict[str, Tensor]:
    """Gradients of a loss with respect to inputs and every parameter, by name."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    result = torch.autograd.grad(loss, [*inputs, *parameters])
    return dict(zip([f"input {i}" for i in range(len(inputs))] + list(names), result, strict=True))


def difference(a: Tensor, b: Tensor) -> float:
    """Largest difference relative to the larger of 1 and the largest entry of ``b``; inf for other shapes."""
    if a.shape != b.shape:
        return float("inf")
    a, b = a.detach(), b.detach()
    return float((a - b).abs().max() / max(1.0, float(b.abs().max()))) if a.numel() else 0.0


def valid(lengths: Tensor, steps: int) -> Tensor:
    """Which tokens are valid, boolean ``(B, T)``."""
    return torch.arange(steps) < lengths[:, None]


def feed(
    mixer: nn.Module,
    rows: Sequence[Tensor],
    takes: Sequence[Sequence[int]],
    state: Any,
    noise: float = 9.0,
    settings: CallSettings = AS_BUILT,
) -> tuple[list[Tensor], Any]:
    """Feeds ragged sequences chunk by chunk, with carried state.

    Args:
        mixer: a causal mixer.
        rows: the tokens ``(L_b, D)`` of each row.
        takes: for each call, how many tokens each row takes; shorter rows are padded with noise.
        state: the state to start from.
        noise: size of what stands in the padding; it must not matter.
        settings: of every call; the state must have been made under the same.

    Returns:
        Each row's outputs ``(L_b, D)``, and the last state.
    """
    start = torch.zeros(len(rows), dtype=torch.long)
    outputs: list[list[Tensor]] = [[] for _ in rows]
    for take in takes:
        steps, lengths = max(take), torch.tensor(take)
        parts = [row[int(s) : int(s) + n] for row, s, n in zip(rows, start, take, strict=True)]
        padded = [
            torch.cat([p, noise * torch.randn(steps - len(p), p.shape[1], dtype=p.dtype)]) for p in parts
        ]
        where = start[:, None] + torch.arange(steps)
        y, state, *_ = mixer(
            torch.stack(padded), state, Layout(True, start, lengths, where, settings=settings)
        )
        for b, n in enumerate(take):
            outputs[b].append(y[b, :n])
        start = start + lengths
    return [torch.cat(parts) for parts in outputs], state


def even_takes(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Chunks of ``size`` tokens until every row is used up; short rows end early."""
    return [[min(size, max(0, n - at)) for n in lengths] for at in range(0, max(lengths), size)]


CHUNKS = {f"of {size}": even_takes(LENGTHS, size) for size in (1, 5, 8)} | {
    "of any size": [[3, 0, 5], [1, 8, 1], [8, 3, 0], [2, 2, 2], [5, 6, 3]]  # rows go on behind their padding
}
