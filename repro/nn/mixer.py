"""The contract between sequence mixers and everything around them.

A mixer turns ``x (B, T, D)`` into ``y (B, T, D)`` and may carry a *state* from one call to the next. A
state is a nested dict or tuple of tensors with the batch axis first, and nothing else, so that detaching,
reordering beams, resetting rows and counting bytes are the tree functions below and no mixer needs a cache class.

Three laws hold for every mixer, each with one parametrised test (tests/nn/test_laws.py):

I.   A sequence fed whole equals the same sequence fed in chunks with carried state, while memory covers the
     past.
II.  Changing token t leaves every output before t untouched (causal layouts).
III. Every mixer equals a naive loop, in outputs and gradients, at odd lengths.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from repro.nn.settings import AS_BUILT, CallSettings

# A nested dict or tuple of tensors, each with the batch axis first. A state passed in is consumed.
State = Any
_Tree = TypeVar("_Tree")


class MixerOutput(NamedTuple):
    """The output of a mixer, a sublayer or a stack.

    Attributes:
        y: ``(B, T, D)``.
        state: the state to pass to the next call, or None where None was passed in.
        aux: an auxiliary loss for each row, ``(B,)``, or None.
        bucket_replay: what the call decided by comparing numbers (hash buckets), a tree of integer tensors, or None;
            given back as ``Layout.bucket_replay``, it makes a repeated call decide the same, whatever rounding did
            meanwhile.
    """

    y: Tensor
    state: State = None
    aux: Tensor | None = None
    bucket_replay: State = None


@dataclass(frozen=True)
class Layout:
    """The positions of the tokens of one call in their sequences. Tensors, not ints: an int recompiles at each step.

    Attributes:
        causal: whether a token sees only itself and the past.
        start: tokens of each row that came before this call, ``(B,)``; None means 0.
        lengths: valid tokens of each row in this call, ``(B,)``; padding is on the right; None means all T.
        positions: place of each token in its sequence, ``(T,)`` or ``(B, T)``; computed once by the model.
        stream: the un-normed input of the sublayer, ``(B, T, D)``; set by the sublayer.
        norm: what made the mixer's input of ``stream``; set by the sublayer. A mixer that remembers its inputs may
            remember ``stream`` and norm it anew in each later call.
        last: only the outputs of so many last tokens are wanted; a mixer that gives more is cut to them.
        bucket_replay: what an earlier call on the same input decided, ``MixerOutput.bucket_replay``; None decides anew.
        settings: of this call, where they are not those that mixers were built with.
    """

    causal: bool
    start: Tensor | None = None
    lengths: Tensor | None = None
    positions: Tensor | None = None
    stream: Tensor | None = None
    norm: Callable[[Tensor], Tensor] | None = None
    last: int | None = None
    bucket_replay: State = None
    settings: CallSettings = AS_BUILT

    def inside(self, stream: Tensor, norm: Callable[[Tensor], Tensor]) -> "Layout":
        """The layout inside a sublayer. Every layer of every step makes one; ``replace`` takes ten times as long."""
        if torch.compiler.is_compiling():
            return replace(self, stream=stream, norm=norm)
        layout = object.__new__(Layout)
        layout.__dict__.update(self.__dict__, stream=stream, norm=norm)
        return layout


@runtime_checkable
class SequenceMixer(Protocol):
    """Mixes a sequence. Modules keep nothing on ``self`` between calls and register no memory as a buffer."""

    def __call__(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Mixes ``x (B, T, D)``; with state None there is no past, and no state is returned."""
        ...

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state for ``batch`` rows, to be continued by calls with the same settings.

        With a capacity, tokens are written in place at static shapes (decoding); without, the state grows by
        concatenation and carries gradient (training).
        """
        ...


class Stateless(nn.Module):
    """Base of mixers that carry nothing from one call to the next: their state is None."""

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        return None


@runtime_checkable
class CrossMixer(Protocol):
    """A mixer that attends to another sequence, whose keys and values are made once."""

    def __call__(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends from ``x (B·K, T, D)`` to a state of B rows."""
        ...

    def attend_to(self, memory: Tensor, lengths: Tensor | None) -> State:
        """The state of attention to ``memory (B, S, D)``, of which ``lengths (B,)`` are valid."""
        ...


def tree_map(function: Callable[[Tensor], Tensor], tree: State) -> State:
    """Applies a function to every tensor of a nested dict, tuple or list."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: tree_map(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(tree_map(function, value) for value in tree)
    if tree is None:
        return tree
    raise TypeError(f"a state holds tensors, dicts and tuples only, not {type(tree).__name__}")


def leaves(tree: State) -> list[Tensor]:
    """Every tensor of a state, in order."""
    tensors: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    tree_map(keep, tree)
    return tensors


def detach(state: _Tree) -> _Tree:
    """Cuts the gradient. Only a task does this, at the step boundary."""
    return tree_map(Tensor.detach, state)


def reorder(state: _Tree, rows: Tensor) -> _Tree:
    """Row i of the result is row ``rows[i]`` of the state; ``rows`` is ``(B',)``."""
    return tree_map(lambda t: t.index_select(0, rows), state)


def reset_rows(state: _Tree, done: Tensor) -> _Tree:
    """Zeroes the rows where ``done (B,)`` is true, lengths included: a new sequence begins there."""
    return tree_map(lambda t: torch.where(done.view(-1, *[1] * (t.dim() - 1)), torch.zeros_like(t), t), state)


def nbytes(state: State) -> int:
    """Memory of a state in bytes."""
    return sum(t.numel() * t.element_size() for t in leaves(state))
