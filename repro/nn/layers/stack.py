"""Stacks of layers, and the recipe from which encoders and decoders are built."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from repro.nn.idle import applied
from repro.nn.layers.sublayer import PostNorm, Residual, Sublayer
from repro.nn.mixer import CrossMixer, Layout, MixerOutput, SequenceMixer, State
from repro.nn.settings import AS_BUILT, CallSettings


class ResidualStack(nn.Module):
    """Runs the sublayers of every layer in turn.

    State: ``{"mix": (layer 0, layer 1, ...), "cross": (...)}``; a name that is missing has no state.

    Args:
        layers: for each layer its sublayers by name: ``mix``, ``cross`` (decoders) and ``feed_forward``.
        final_norm: applied to the last layer's output.
    """

    def __init__(self, layers: Sequence[Mapping[str, Sublayer]], final_norm: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict(dict(layer)) for layer in layers)
        self.final_norm = final_norm

    def d_out(self, d_model: int) -> int:
        """Channels of the output where those of the input are ``d_model``."""
        return d_model

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state of every layer's mixer."""
        states = []
        for layer in self.each():
            mixer = layer["mix"].body
            assert isinstance(mixer, SequenceMixer)
            states.append(mixer.init_state(batch, capacity, settings))
        return {"mix": tuple(states)}

    def attend_to(self, memory: Tensor, lengths: Tensor | None) -> State:
        """The state of every layer's cross-attention to ``memory (B, S, D)``."""
        states = []
        for layer in self.each():
            mixer = layer["cross"].body
            assert isinstance(mixer, CrossMixer)
            states.append(mixer.attend_to(memory, lengths))
        return {"cross": tuple(states)}

    def each(self) -> list[dict[str, Sublayer]]:
        """The sublayers of every layer by name, in the order in which they run."""
        return [dict(layer.items()) for layer in self.layers]  # type: ignore[operator]

    def forward(self, x: Tensor, state: State, layout: Layout, last: int | None = None) -> MixerOutput:
        """Applies every layer to ``x (B, T, D)``; aux is the sum over layers.

        Args:
            x: what goes in.
            state: of every layer, or None.
            layout: of the tokens.
            last: how many last tokens need outputs; the last layer computes no others.
        """
        states_in = state or {}
        states_out: dict[str, list[State]] = {name: [] for name in states_in}
        aux: Tensor | None = None
        for depth, layer in enumerate(self.layers):
            for name, sublayer in layer.items():  # type: ignore[operator]
                if depth == len(self.layers) - 1 and name == "mix":  # earlier sublayers need every token
                    layout = replace(layout, last=last)
                past = states_in[name][depth] if name in states_in else None
                x, new, loss, _ = sublayer(x, past, layout)
                if name in states_in:
                    states_out[name].append(new)
                if loss is not None:
                    aux = loss if aux is None else aux + loss
        states = {name: tuple(values) for name, values in states_out.items()} if state is not None else None
        return MixerOutput(applied(self.final_norm, x), states, aux)


@dataclass
class Blocks:
    """The parts of the layers of a model.

    Args:
        mixers: makers of a mixer from ``d_model``, tiled over depth. One with a method ``share_with(first)`` is
            given the first mixer of its class, to take parameters over from it.
        feed_forward: maker of a feed-forward layer from ``d_model``; None has none.
        sublayer: maker of a sublayer from a body and ``d_model``; decides the norm placement.
        positions: maker of positions that every layer adds to its input, from ``d_model``; None adds none.
        cross: maker of the cross-attention from ``d_model``; needed by decoders that attend to an encoder.
        final_norm: maker of a norm after the last layer, from :meth:`d_out` (pre-norm stacks want one).
        stack: how the sublayers are wired.
    """

    mixers: list[Callable[[int], nn.Module]]
    feed_forward: Callable[[int], nn.Module] | None
    sublayer: Callable[[nn.Module, int], Sublayer] = PostNorm
    positions: Callable[[int], nn.Module] | None = None
    cross: Callable[[int], nn.Module] | None = None
    final_norm: Callable[[int], nn.Module] | None = None
    stack: Callable[[Sequence[Mapping[str, Sublayer]], nn.Module], ResidualStack] = ResidualStack

    def d_out(self, d_model: int) -> int:
        """Channels that a stack of them hands out; not ``d_model`` where streams are set side by side."""
        return self.stack([], nn.Identity()).d_out(d_model)

    def build(self, d_model: int, n_layers: int, cross: bool = False) -> ResidualStack:
        """Builds a stack of ``n_layers`` layers, with cross-attention where ``cross``.

        Raises:
            ValueError: ``cross`` is wanted and no maker was given, there is no mixer or no layer, or a maker of mixers
                makes something else.
        """
        if cross and self.cross is None:
            raise ValueError("a decoder that attends to an encoder needs blocks.cross")
        if not self.mixers:
            raise ValueError("blocks.mixers is empty; give at least one")
        if n_layers < 1:
            raise ValueError(f"a stack needs at least 1 layer, not {n_layers}")
        layers = [self._layer(d_model, depth, cross) for depth in range(n_layers)]
        mixers = [layer["mix"].body for layer in layers]
        for mixer in mixers:
            if not isinstance(mixer, SequenceMixer):
                name = type(mixer).__name__
                raise ValueError(f"blocks.mixers: {name} is no mixer, as it has no init_state")
        share(mixers)
        norm = self.final_norm(self.d_out(d_model)) if self.final_norm else nn.Identity()
        return self.stack(layers, norm)

    def _layer(self, d_model: int, depth: int, cross: bool) -> dict[str, Sublayer]:
        # added without a norm and without dropout
        added = {} if self.positions is None else {"positions": Residual(self.positions(d_model), d_model)}
        bodies = {"mix": self.mixers[depth % len(self.mixers)](d_model)}
        if cross and self.cross is not None:
            bodies["cross"] = self.cross(d_model)
        if self.feed_forward is not None:
            bodies["feed_forward"] = self.feed_forward(d_model)
        return {**added, **{name: self.sublayer(body, d_model) for name, body in bodies.items()}}


def share(mixers: Iterable[Any]) -> None:
    """Lets mixers take parameters over from the first of their class: what a model has once for all layers."""
    first: dict[type, nn.Module] = {}
    for mixer in mixers:
        if first.setdefault(type(mixer), mixer) is not mixer and hasattr(mixer, "share_with"):
            mixer.share_with(first[type(mixer)])
