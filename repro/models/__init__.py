"""Networks: blocks put together. They return hidden states; losses belong to tasks."""

from repro.models.decoder_lm import DecoderLM
from repro.models.encoder_decoder import EncoderDecoder

__all__ = ["DecoderLM", "EncoderDecoder"]
