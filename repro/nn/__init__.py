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

from repro.nn.adaptive import AdaptiveVocabulary
from repro.nn.attention.compressed import CompressedMemory
from repro.nn.attention.compression import (
    Compression,
    ConvolutionCompression,
    MaxCompression,
    MeanCompression,
)
from repro.nn.attention.compressive import CompressiveAttention
from repro.nn.attention.continuous import ContinuousMemory, ContinuousSignal
from repro.nn.attention.full import CrossAttention, FullAttention
from repro.nn.attention.hashing import Hashing
from repro.nn.attention.infused import InfusedAttention
from repro.nn.attention.linear import EluPlusOne, LinearAttention
from repro.nn.attention.local import LocalAttention
from repro.nn.attention.lsh import LSHAttention
from repro.nn.attention.relative import RelativeAttention
from repro.nn.attention.shaw import ShawAttention
from repro.nn.axial import AxialPositions
from repro.nn.bidirectional import BidirectionalLSTM
from repro.nn.ctc import CtcHead
from repro.nn.embeddings import TokenEmbedding, VectorEmbedding
from repro.nn.feed_forward import FeedForward
from repro.nn.heads import LinearHead, PaddedScores, TokenScores, padded_scores, token_scores
from repro.nn.mixer import Layout, Mixed, SequenceMixer, State
from repro.nn.mixture import PixelVocabulary
from repro.nn.perceptron import PerceptronEmbedding, PerceptronHead
from repro.nn.positions import (
    Added,
    Concatenated,
    LayerPositions,
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    SplitSinusoids,
)
from repro.nn.recurrent import NormedLSTM
from repro.nn.reversible import ReversibleStack
from repro.nn.settings import CallSettings, MemorySettings
from repro.nn.stack import Blocks, ResidualStack
from repro.nn.sublayer import (
    Plain,
    PostNorm,
    PreNorm,
    Residual,
    Sublayer,
    WeightedPostNorm,
    WeightedShortcut,
)
from repro.nn.typed import TypedVocabulary
from repro.nn.vocabulary import Vocabulary

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
    "Hashing",
    "InfusedAttention",
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
    "Mixed",
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
    "token_scores",
]
