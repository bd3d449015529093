"""One step of a reversible stack: adds a sublayer's output for the other stream, and subtracts it again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from repro.nn.autograd import Context
from repro.nn.device import RandomStates, autocast_as_now, autocast_is_on
from repro.nn.layers.feed_forward import FeedForward
from repro.nn.layers.sublayer import Sublayer
from repro.nn.mixer import CrossMixer, Layout, MixerOutput, State, leaves, tree_map


@dataclass(frozen=True)
class Step:
    """One sublayer in one forward pass.

    Attributes:
        name: of the sublayer in its layer.
        sublayer: what is called.
        past: the state that it is given.
        trained: its parameters that want a gradient, each once.
        last: no step comes behind it.
    """

    name: str
    sublayer: Sublayer
    past: State
    trained: Sequence[Tensor]
    last: bool

    def branch(self, x: Tensor, past: State, layout: Layout) -> MixerOutput:
        """The output that the sublayer adds."""
        body = self.sublayer.body
        if self.name == "cross" and "memory" in past:
            assert isinstance(body, CrossMixer)
            past = body.attend_to(past["memory"], past.get("length"))
        return self.sublayer.branch(x, past, layout)

    def pieces(self, steps: int) -> list[slice]:
        """The slices of tokens with which the body must be called, in order; mostly a single one."""
        body = self.sublayer.body
        return body.pieces(steps) if isinstance(body, FeedForward) else [slice(0, steps)]

    def reads(self) -> list[Tensor]:
        """All tensors that it reads besides the streams and that may need a gradient."""
        return [*self.trained, *leaves(self.past)]


class Pass:
    """The surroundings of one forward pass, which a repetition of its steps needs.

    Args:
        layout: of the tokens.
        x: what goes in, for its dtype and device.
    """

    def __init__(self, layout: Layout, x: Tensor) -> None:
        self.layout = layout
        # Never cached: the casts of all layers' weights would be kept until autocast ends.
        self.autocast = autocast_as_now(x.device)
        # Of what sublayers are given.
        self.dtype = torch.promote_types(x.dtype, torch.float32) if autocast_is_on(x.device) else x.dtype
        self.begun = False  # whether a step has been taken that can be undone
        self.streams: tuple[Tensor, Tensor] | None = None  # in the backward pass, after the current step

    def add(self, step: Step, first: Tensor, second: Tensor) -> tuple[MixerOutput, list[State]]:
        """``first + branch(second)``, as ``y``; and the bucket replay of each piece of the call."""
        outputs = []
        for piece in step.pieces(second.shape[1]):
            mixed = step.branch(second[:, piece].to(self.dtype), step.past, self.layout)
            outputs.append(mixed._replace(y=first[:, piece] + mixed.y))
        losses = [mixed.aux for mixed in outputs if mixed.aux is not None]
        aux = sum(losses[1:], losses[0]) if losses else None
        bucket_replay = [mixed.bucket_replay for mixed in outputs]
        return MixerOutput(_whole([mixed.y for mixed in outputs]), outputs[-1].state, aux), bucket_replay


class _Context(Context):
    run: Pass
    step: Step
    random: RandomStates
    first: bool
    bucket_replay: list[State]


class Undoable(torch.autograd.Function):
    """A step that keeps neither its input nor its output, and computes both again from the streams behind it.

    Only the last step keeps the streams; in the backward pass each step hands those before it on. The auxiliary loss so
    far goes through every step, so that none is left out.
    """

    @staticmethod
    def forward(
        ctx: _Context,
        run: Pass,
        step: Step,
        first: Tensor,
        second: Tensor,
        aux: Tensor | None,
        *reads: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        ctx.run, ctx.step, ctx.random = run, step, RandomStates(second.device)
        ctx.first, run.begun = not run.begun, True
        with run.autocast():
            mixed, ctx.bucket_replay = run.add(step, first, second)
        saved = (second, mixed.y) if step.last else ()
        ctx.save_for_backward(*saved, *reads)  # so that one changed in place is noticed
        if aux is None or mixed.aux is None:
            return mixed.y, mixed.aux if aux is None else aux
        return mixed.y, aux + mixed.aux

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, grad: Tensor, grad_aux: Tensor | None) -> tuple[Tensor | None, ...]:
        run, step, saved = ctx.run, ctx.step, ctx.saved_tensors  # always read: torch checks for changes
        streams = (saved[0], saved[1]) if step.last else run.streams
        assert streams is not None  # set by the step after this one
        outside = RandomStates(grad.device)
        try:
            ctx.random.restore()
            before, added, read_grads = _undo(run, step, ctx.bucket_replay, streams, (grad, grad_aux))
        finally:
            outside.restore()
        run.streams = None if ctx.first else before
        return None, None, grad, added, grad_aux if ctx.needs_input_grad[4] else None, *read_grads


def _undo(
    run: Pass,
    step: Step,
    bucket_replay: list[State],
    streams: tuple[Tensor, Tensor],
    grads: tuple[Tensor, Tensor | None],
) -> tuple[tuple[Tensor, Tensor], Tensor, list[Tensor | None]]:
    """The streams before a step from those after it, and the gradients of the second stream and of the reads."""
    second, behind = streams
    past = tree_map(lambda t: t.detach().requires_grad_(t.requires_grad), step.past)
    reads = replace(step, past=past).reads()
    firsts, seconds = [], []
    sums: list[Tensor | None] = [None] * len(reads)
    for piece, decided in zip(step.pieces(behind.shape[1]), bucket_replay, strict=True):
        x = second[:, piece].detach().requires_grad_()
        with torch.enable_grad(), run.autocast():
            mixed = step.branch(x.to(run.dtype), past, replace(run.layout, bucket_replay=decided))
        firsts.append(behind[:, piece] - mixed.y.detach())
        parts = _gradients(mixed, [x, *reads], grads[0][:, piece], grads[1])
        seconds.append(torch.zeros_like(x) if parts[0] is None else parts[0])
        sums = [b if a is None else a if b is None else a + b for a, b in zip(sums, parts[1:], strict=True)]
    return (_whole(firsts), second), _whole(seconds), sums


def _gradients(
    mixed: MixerOutput, inputs: list[Tensor], grad: Tensor, grad_aux: Tensor | None
) -> list[Tensor | None]:
    pairs = [(mixed.y, grad), (mixed.aux, grad_aux)]
    needed = [(y, g.to(y.dtype)) for y, g in pairs if y is not None and g is not None and y.requires_grad]
    places = [i for i, tensor in enumerate(inputs) if tensor.requires_grad]
    gradients: list[Tensor | None] = [None] * len(inputs)
    if needed:
        outputs, weights = zip(*needed, strict=True)
        got = torch.autograd.grad(outputs, [inputs[i] for i in places], weights, allow_unused=True)
        for i, g in zip(places, got, strict=True):
            gradients[i] = g
    return gradients


def _whole(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)
