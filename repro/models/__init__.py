"""Networks, composed of blocks. They return hidden states; losses belong to tasks."""

from repro.models.body import Bert as Bert
from repro.models.body import Body as Body
from repro.models.body import Gpt2 as Gpt2
from repro.models.body import Recurrent as Recurrent
from repro.models.body import VisionTransformer as VisionTransformer
from repro.models.classifier import Classifier as Classifier
from repro.models.decoder_lm import DecoderLM as DecoderLM
from repro.models.encoder_decoder import EncoderDecoder as EncoderDecoder
from repro.models.transcriber import Transcriber as Transcriber
