"""Decoder-only language model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from repro.nn.idle import applied
from repro.nn.init import glorot
from repro.nn.layers.stack import Blocks, ResidualStack
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.positions.positions import Added, InputPositions
from repro.nn.settings import AS_BUILT, CallSettings


class DecoderLM(nn.Module):
    """Embeds tokens, applies a causal stack, returns hidden states.

    State: ``{"stream": {"start": (B,), "mix": ...}, "memory": {}}``; see :mod:`repro.models.generate`.

    Args:
        d_model: D.
        n_layers: layers.
        vocabulary: maker of a vocabulary from the width of a token vector and that of a hidden state, ``d_model``
            but behind two streams side by side.
        blocks: what the layers are made of.
        positions: maker of input positions from ``d_model``.
        dropout: on the embedding sums, in [0, 1).
        final_dropout: on the hidden states that are returned, in [0, 1).
        init: initialises the whole model, in place.
    """

    vocabulary: Any  # what the maker made: a module with more methods than nn.Module has

    def __init__(
        self,
        d_model: int,
        n_layers: int,
        vocabulary: Callable[[int, int], nn.Module],
        blocks: Blocks,
        positions: Callable[[int], InputPositions] = Added,
        dropout: float = 0.1,
        final_dropout: float = 0.0,
        init: Callable[[nn.Module], None] = glorot,
    ) -> None:
        super().__init__()
        self.positions = positions(d_model)
        self.vocabulary = vocabulary(self.positions.token_width, blocks.d_out(d_model))
        self.dropout = nn.Dropout(dropout)
        self.final_dropout = nn.Dropout(final_dropout)
        self.stack = blocks.build(d_model, n_layers)
        init(self)

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state for ``batch`` rows, for calls with the same settings; with a capacity to decode in place."""
        return {"stream": start_stream(self.stack, batch, capacity, settings), "memory": {}}

    def forward(
        self,
        ids: Tensor,
        state: State = None,
        lengths: Tensor | None = None,
        settings: CallSettings = AS_BUILT,
    ) -> MixerOutput:
        """Hidden states ``(B, T, D)`` of token ids ``(B, T)``, of which ``lengths (B,)`` are valid."""
        past = None if state is None else state["stream"]
        x, layout = place(self.vocabulary.embed(ids), self.positions, past, lengths, settings)
        mixed: MixerOutput = self.stack(
            applied(self.dropout, x), None if past is None else {"mix": past["mix"]}, layout
        )
        mixed = mixed._replace(y=applied(self.final_dropout, mixed.y))
        if past is None:
            return mixed
        return mixed._replace(state={"stream": advance_stream(past, layout, mixed.state), "memory": {}})

    def decode(
        self, ids: Tensor, state: State, lengths: Tensor | None = None, settings: CallSettings = AS_BUILT
    ) -> MixerOutput:
        """Continues sequences: as :meth:`forward` with a state, under the name that decoding uses."""
        return self(ids, state, lengths, settings)


def start_stream(
    stack: ResidualStack, batch: int, capacity: int | None, settings: CallSettings = AS_BUILT
) -> State:
    """The part of a decoder's state that has one row for each sequence."""
    state = stack.init_state(batch, capacity, settings)
    device = next(stack.parameters()).device
    return {"start": torch.zeros(batch, dtype=torch.long, device=device), **state}


def place(
    x: Tensor,
    positions: nn.Module,
    past: State,
    lengths: Tensor | None,
    settings: CallSettings = AS_BUILT,
) -> tuple[Tensor, Layout]:
    """Gives token vectors ``(B, T, ·)`` their positions: ``(B, T, D)``, and the causal layout."""
    steps = torch.arange(x.shape[1], device=x.device)
    start = None if past is None else past["start"]
    token_positions = steps if start is None else start[:, None] + steps
    layout = Layout(causal=True, start=start, lengths=lengths, positions=token_positions, settings=settings)
    return positions(x, token_positions), layout


def advance_stream(past: State, layout: Layout, mixed_state: State) -> State:
    """The stream after a call: its start moved on by the tokens that were valid and are not read again."""
    assert layout.positions is not None  # set by place
    steps = layout.positions.shape[-1] if layout.lengths is None else layout.lengths
    steps = steps - layout.settings.reread
    return {"start": past["start"] + steps, "mix": mixed_state["mix"]}
