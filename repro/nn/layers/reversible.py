"""A stack whose sublayers can be undone: the backward pass computes activations again instead of keeping them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from repro.nn.layers.recompute import Pass, Step, Undoable
from repro.nn.layers.stack import ResidualStack
from repro.nn.layers.sublayer import Sublayer
from repro.nn.mixer import Layout, MixerOutput, State


class ReversibleStack(ResidualStack):
    """Couples two streams over sublayers: ``x1 ← x1 + f(x2)``, then the streams change places.

    ``f`` is a sublayer's branch, ``dropout(body(norm_in(·)))``. Both streams begin as the input. Given the streams
    behind a sublayer those before it follow, so that training keeps the two last streams only, beside what each
    sublayer decided (:attr:`MixerOutput.bucket_replay`) and where the random numbers stood before it; the memory of
    activations does not grow with depth. In the backward pass every sublayer is called once more, with the same random
    numbers, bucket ids and autocast. Streams are kept in float32 or better, so that undoing adds no more than float32's
    rounding.

    In evaluation, without gradient, or where nothing is trained, the same sums are computed plainly. Cross-attention
    makes its keys and values anew from the memory in each call while training, so that these are not kept either.

    Hooks on gradients of parameters run in the recomputation as well as outside; hooks on sublayers do not run.

    Args:
        layers: for each layer its sublayers by name; each must be ``x + branch(x)``.
        final_norm: applied to the joined streams; of width 2D where they are concatenated.
        join: ``concat`` sets the streams side by side, ``(B, T, 2D)``; ``mean`` averages them, ``(B, T, D)``.

    Raises:
        ValueError: a sublayer that is not ``x + branch(x)`` (post-norm, scaled shortcuts, none), or another ``join``.

    Source: Kitaev et al. 2020, section 3, after Gomez et al. 2017; ``concat`` as in trax's ``ReformerLM``, ``mean`` as
    in its encoder-decoder.
    """

    def __init__(
        self,
        layers: Sequence[Mapping[str, Sublayer]],
        final_norm: nn.Module,
        join: Literal["concat", "mean"] = "concat",
    ) -> None:
        super().__init__(layers, final_norm)
        if join not in _JOINS:
            raise ValueError(f"join must be one of {', '.join(_JOINS)}, not {join!r}")
        self.join, self.widening = _JOINS[join]
        for name, sublayer in (pair for layer in layers for pair in layer.items()):
            if not sublayer.additive:
                raise ValueError(
                    f"a reversible stack cannot undo {type(sublayer).__name__} ({name}): "
                    "take a sublayer without norm_out and with a plain shortcut, such as PreNorm"
                )

    def d_out(self, d_model: int) -> int:
        """Channels of the output."""
        return self.widening * d_model

    def attend_to(self, memory: Tensor, lengths: Tensor | None) -> State:
        """The state of every layer's cross-attention to ``memory (B, S, D)``: in training the memory itself."""
        if not self._recomputes():
            return super().attend_to(memory, lengths)
        cross = {"memory": memory} if lengths is None else {"memory": memory, "length": lengths}
        return {"cross": (cross,) * len(self.layers)}

    def forward(self, x: Tensor, state: State, layout: Layout, last: int | None = None) -> MixerOutput:
        """Applies every layer to ``x (B, T, D)``; aux is the sum over sublayers.

        Args:
            x: what goes in.
            state: of every layer, or None; one of mixers is not for training.
            layout: of the tokens.
            last: how many last tokens need outputs; the others are cut off at the end.

        Raises:
            ValueError: a state of mixers in training.
        """
        states_in = state or {}
        last = layout.last if last is None else last
        run = Pass(replace(layout, last=None), x)
        first = second = x.to(torch.promote_types(x.dtype, torch.float32))
        aux: Tensor | None = None
        states_out: dict[str, list[State]] = {name: [] for name in states_in}
        for step in self._steps(states_in):
            reads = step.reads()
            if self._recomputes() and any(t.requires_grad for t in (second, *reads)):
                if "mix" in states_in:
                    raise ValueError(
                        "a reversible stack carries no state in training: undoing needs its past"
                    )
                new, aux = Undoable.apply(run, step, first, second, aux, *reads)
                past = step.past
            else:
                (new, past, loss, _), _ = run.add(step, first, second)
                aux = loss if aux is None else aux if loss is None else aux + loss
            first, second = second, new
            if step.name in states_in:
                states_out[step.name].append(past)
        joined = self.join(first, second).to(run.dtype)
        states = {name: tuple(values) for name, values in states_out.items()} if state is not None else None
        return MixerOutput(self.final_norm(joined if last is None else joined[:, -last:]), states, aux)

    def _recomputes(self) -> bool:
        return self.training and torch.is_grad_enabled()

    def _steps(self, states: Mapping[str, State]) -> list[Step]:
        count = sum(len(layer) for layer in self.each())
        steps: list[Step] = []
        for depth, layer in enumerate(self.each()):
            for name, sublayer in layer.items():
                past = states[name][depth] if name in states else None
                trained = [p for p in sublayer.parameters() if p.requires_grad] if self._recomputes() else []
                steps.append(Step(name, sublayer, past, trained, len(steps) + 1 == count))
        return steps


def _side_by_side(first: Tensor, second: Tensor) -> Tensor:
    return torch.cat([first, second], -1)


def _mean(first: Tensor, second: Tensor) -> Tensor:
    return (first + second) / 2


# How streams are joined, and how much wider that is than one of them.
_JOINS = {"concat": (_side_by_side, 2), "mean": (_mean, 1)}
