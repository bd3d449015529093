"""Encoder-decoder for translation and other sequence-to-sequence tasks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from repro.models.decoder_lm import advance_stream, place, start_stream
from repro.nn.idle import applied
from repro.nn.init import glorot
from repro.nn.layers.stack import Blocks
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.positions.positions import Added, InputPositions
from repro.nn.settings import AS_BUILT, CallSettings


class EncoderDecoder(nn.Module):
    """An encoder over the source, a causal decoder over the target that attends to it; one shared vocabulary.

    State: ``{"stream": {"start": (B·K,), "mix": ...}, "memory": {"cross": ...}}``: the stream has a row for
    each hypothesis, the memory one for each source; K consecutive hypotheses share a source.

    Args:
        d_model: D.
        encoder_layers: layers of the encoder.
        decoder_layers: layers of the decoder.
        vocabulary: maker of a vocabulary from the width of a token vector and ``d_model``.
        blocks: what the layers of both are made of; those of the decoder must have ``cross``.
        positions: maker of input positions from ``d_model``.
        dropout: on the embedding sums of both, in [0, 1).
        init: initialises the whole model, in place.
        decoder_blocks: what the decoder's layers are made of; None: ``blocks``.

    Raises:
        ValueError: a stack whose output is not ``d_model`` wide.

    Source: Vaswani et al. 2017, section 3.
    """

    vocabulary: Any  # what the maker made: a module with more methods than nn.Module has

    def __init__(
        self,
        d_model: int,
        encoder_layers: int,
        decoder_layers: int,
        vocabulary: Callable[[int, int], nn.Module],
        blocks: Blocks,
        positions: Callable[[int], InputPositions] = Added,
        dropout: float = 0.1,
        init: Callable[[nn.Module], None] = glorot,
        decoder_blocks: Blocks | None = None,
    ) -> None:
        super().__init__()
        decoder_blocks = decoder_blocks or blocks
        for made_of, reader in ((blocks, "decoder"), (decoder_blocks, "vocabulary")):
            if made_of.d_out(d_model) != d_model:
                raise ValueError(
                    f"the {reader} reads states {d_model} wide, not {made_of.d_out(d_model)}: "
                    "give blocks.stack `join: mean`"
                )
        self.positions = positions(d_model)
        self.vocabulary = vocabulary(self.positions.token_width, d_model)
        self.dropout = nn.Dropout(dropout)
        self.encoder = blocks.build(d_model, encoder_layers)
        self.decoder = decoder_blocks.build(d_model, decoder_layers, cross=True)
        init(self)

    def encode(
        self, source: Tensor, lengths: Tensor | None, settings: CallSettings = AS_BUILT
    ) -> MixerOutput:
        """Hidden states ``(B, S, D)`` of source ids ``(B, S)``, of which ``lengths (B,)`` are valid."""
        positions = torch.arange(source.shape[1], device=source.device)
        x = applied(self.dropout, self.positions(self.vocabulary.embed(source), positions))
        layout = Layout(causal=False, lengths=lengths, positions=positions, settings=settings)
        return self.encoder(x, None, layout)

    def forward(
        self,
        source: Tensor,
        source_lengths: Tensor | None,
        target: Tensor,
        lengths: Tensor | None = None,
        settings: CallSettings = AS_BUILT,
    ) -> MixerOutput:
        """Hidden states of the decoder, teacher-forced.

        Args:
            source: ids ``(B, S)``.
            source_lengths: valid tokens of each source, ``(B,)``; None means all.
            target: ids ``(B, T)`` shifted right, a begin symbol first.
            lengths: valid tokens of each target, ``(B,)``.
            settings: of this call.

        Returns:
            ``y (B, T, D)``; aux is the sum of both stacks'.
        """
        encoded = self.encode(source, source_lengths, settings)
        x, layout = place(self.vocabulary.embed(target), self.positions, None, lengths, settings)
        memory = self.decoder.attend_to(encoded.y, source_lengths)
        mixed: MixerOutput = self.decoder(applied(self.dropout, x), memory, layout)
        losses = [loss for loss in (encoded.aux, mixed.aux) if loss is not None]
        return MixerOutput(mixed.y, None, torch.stack(losses).sum(0) if losses else None)

    def start(
        self,
        source: Tensor,
        lengths: Tensor | None,
        beams: int = 1,
        capacity: int | None = None,
        settings: CallSettings = AS_BUILT,
    ) -> State:
        """Encodes sources ``(B, S)`` once and makes an empty stream of ``B · beams`` hypotheses."""
        memory = self.decoder.attend_to(self.encode(source, lengths, settings).y, lengths)
        stream = start_stream(self.decoder, source.shape[0] * beams, capacity, settings)
        return {"stream": stream, "memory": memory}

    def decode(
        self, target: Tensor, state: State, lengths: Tensor | None = None, settings: CallSettings = AS_BUILT
    ) -> MixerOutput:
        """Hidden states ``(B·K, T, D)`` of the next ids ``(B·K, T)``, of which ``lengths`` are valid."""
        past = state["stream"]
        x, layout = place(self.vocabulary.embed(target), self.positions, past, lengths, settings)
        mixed: MixerOutput = self.decoder(
            applied(self.dropout, x), {"mix": past["mix"], **state["memory"]}, layout
        )
        stream = advance_stream(past, layout, mixed.state)
        return mixed._replace(state={"stream": stream, "memory": state["memory"]})
