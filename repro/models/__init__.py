"""Networks, composed of blocks. They return hidden states; losses belong to tasks."""

from repro.models.body import Bert, Body, Gpt2, Recurrent, VisionTransformer
from repro.models.classifier import Classifier
from repro.models.decoder_lm import DecoderLM
from repro.models.encoder_decoder import EncoderDecoder
from repro.models.transcriber import Transcriber

__all__ = [
    "Bert",
    "Body",
    "Classifier",
    "DecoderLM",
    "EncoderDecoder",
    "Gpt2",
    "Recurrent",
    "Transcriber",
    "VisionTransformer",
]
