"""Building blocks. Torch only; no paper's name in here.

Shape legend, used by every docstring of this package (einsum letters are the same in lower case):

====  =========================  ====  =========================
B     batch (rows)               H     heads
T     query length               E     width of a head
S     key length                 F     feed-forward width
M     memory length              V     vocabulary
D     model width                N     basis functions
R     hash rounds
====  =========================  ====  =========================
"""

from repro.nn.attention.compressed.attention import CompressiveAttention
from repro.nn.attention.compressed.compression import (
    Compression,
    ConvolutionCompression,
    MaxCompression,
    MeanCompression,
)
from repro.nn.attention.compressed.memory import CompressedMemory
from repro.nn.attention.continuous import ContinuousMemory, ContinuousSignal
from repro.nn.attention.full import CrossAttention, FullAttention
from repro.nn.attention.hashed.hashing import Hashing
from repro.nn.attention.hashed.lsh import LSHAttention
from repro.nn.attention.infused import InfusedAttention
from repro.nn.attention.linear.attention import EluPlusOne, LinearAttention
from repro.nn.attention.local import LocalAttention
from repro.nn.attention.relative.attention import RelativeAttention
from repro.nn.attention.relative.shaw import ShawAttention
from repro.nn.bidirectional import BidirectionalLSTM
from repro.nn.fused import FusedLinear, parts_of
from repro.nn.layers.feed_forward import FeedForward
from repro.nn.layers.reversible import ReversibleStack
from repro.nn.layers.stack import Blocks, ResidualStack
from repro.nn.layers.sublayer import (
    Plain,
    PostNorm,
    PreNorm,
    Residual,
    Sublayer,
    WeightedPostNorm,
    WeightedShortcut,
)
from repro.nn.mixer import Layout, MixerOutput, SequenceMixer, State
from repro.nn.positions.axial import AxialPositions
from repro.nn.positions.positions import (
    Added,
    Concatenated,
    InputPositions,
    LayerPositions,
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    SplitSinusoids,
)
from repro.nn.recurrent import NormedLSTM
from repro.nn.settings import CallSettings, MemorySettings
from repro.nn.vocabularies.adaptive import AdaptiveVocabulary
from repro.nn.vocabularies.ctc import CtcHead
from repro.nn.vocabularies.embeddings import InputLayer, TokenEmbedding, VectorEmbedding
from repro.nn.vocabularies.heads import LinearHead, PaddedScores, TokenScores, padded_scores, token_scores
from repro.nn.vocabularies.mixture import PixelVocabulary
from repro.nn.vocabularies.perceptron import PerceptronEmbedding, PerceptronHead
from repro.nn.vocabularies.typed import TypedVocabulary
from repro.nn.vocabularies.vocabulary import Vocabulary

__all__ = [
    "AdaptiveVocabulary",
    "Added",
    "AxialPositions",
    "BidirectionalLSTM",
    "Blocks",
    "CallSettings",
    "CompressedMemory",
    "Compression",
    "CompressiveAttention",
    "Concatenated",
    "ContinuousMemory",
    "ContinuousSignal",
    "ConvolutionCompression",
    "CrossAttention",
    "CtcHead",
    "EluPlusOne",
    "FeedForward",
    "FullAttention",
    "FusedLinear",
    "Hashing",
    "InfusedAttention",
    "InputLayer",
    "InputPositions",
    "LSHAttention",
    "LayerPositions",
    "Layout",
    "LearnedPositions",
    "LinearAttention",
    "LinearHead",
    "LocalAttention",
    "MaxCompression",
    "MeanCompression",
    "MemorySettings",
    "MixerOutput",
    "NoPositions",
    "NormedLSTM",
    "PaddedScores",
    "PerceptronEmbedding",
    "PerceptronHead",
    "PixelVocabulary",
    "Plain",
    "PostNorm",
    "PreNorm",
    "RelativeAttention",
    "Residual",
    "ResidualStack",
    "ReversibleStack",
    "SequenceMixer",
    "ShawAttention",
    "SinusoidalPositions",
    "SplitSinusoids",
    "State",
    "Sublayer",
    "TokenEmbedding",
    "TokenScores",
    "TypedVocabulary",
    "VectorEmbedding",
    "Vocabulary",
    "WeightedPostNorm",
    "WeightedShortcut",
    "padded_scores",
    "parts_of",
    "token_scores",
]
