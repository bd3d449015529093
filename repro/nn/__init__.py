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
from repro.nn.attention.full import CrossAttention, FullAttention
from repro.nn.attention.infused import InfusedAttention
from repro.nn.attention.relative import RelativeAttention
from repro.nn.attention.shaw import ShawAttention
from repro.nn.embeddings import TokenEmbedding, VectorEmbedding
from repro.nn.feed_forward import FeedForward
from repro.nn.heads import LinearHead, TokenScores, token_scores
from repro.nn.mixer import Layout, Mixed, SequenceMixer, State
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
from repro.nn.stack import Blocks, ResidualStack
from repro.nn.sublayer import Plain, PostNorm, PreNorm, Residual, Sublayer
from repro.nn.vocabulary import Vocabulary

__all__ = [
    "AdaptiveVocabulary",
    "Added",
    "Blocks",
    "Concatenated",
    "CrossAttention",
    "FeedForward",
    "FullAttention",
    "InfusedAttention",
    "LayerPositions",
    "Layout",
    "LearnedPositions",
    "LinearHead",
    "Mixed",
    "NoPositions",
    "NormedLSTM",
    "Plain",
    "PostNorm",
    "PreNorm",
    "RelativeAttention",
    "Residual",
    "ResidualStack",
    "SequenceMixer",
    "ShawAttention",
    "SinusoidalPositions",
    "SplitSinusoids",
    "State",
    "Sublayer",
    "TokenEmbedding",
    "TokenScores",
    "VectorEmbedding",
    "Vocabulary",
    "token_scores",
]
