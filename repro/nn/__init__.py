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

from repro.nn.attention.compressed.attention import CompressiveAttention as CompressiveAttention
from repro.nn.attention.compressed.compression import Compression as Compression
from repro.nn.attention.compressed.compression import ConvolutionCompression as ConvolutionCompression
from repro.nn.attention.compressed.compression import MaxCompression as MaxCompression
from repro.nn.attention.compressed.compression import MeanCompression as MeanCompression
from repro.nn.attention.compressed.memory import CompressedMemory as CompressedMemory
from repro.nn.attention.continuous import ContinuousMemory as ContinuousMemory
from repro.nn.attention.continuous import ContinuousSignal as ContinuousSignal
from repro.nn.attention.full import CrossAttention as CrossAttention
from repro.nn.attention.full import FullAttention as FullAttention
from repro.nn.attention.hashed.hashing import Hashing as Hashing
from repro.nn.attention.hashed.lsh import LSHAttention as LSHAttention
from repro.nn.attention.infused import InfusedAttention as InfusedAttention
from repro.nn.attention.linear.attention import EluPlusOne as EluPlusOne
from repro.nn.attention.linear.attention import LinearAttention as LinearAttention
from repro.nn.attention.local import LocalAttention as LocalAttention
from repro.nn.attention.relative.attention import RelativeAttention as RelativeAttention
from repro.nn.attention.relative.shaw import ShawAttention as ShawAttention
from repro.nn.bidirectional import BidirectionalLSTM as BidirectionalLSTM
from repro.nn.fused import FusedLinear as FusedLinear
from repro.nn.fused import parts_of as parts_of
from repro.nn.layers.feed_forward import FeedForward as FeedForward
from repro.nn.layers.reversible import ReversibleStack as ReversibleStack
from repro.nn.layers.stack import Blocks as Blocks
from repro.nn.layers.stack import ResidualStack as ResidualStack
from repro.nn.layers.sublayer import Plain as Plain
from repro.nn.layers.sublayer import PostNorm as PostNorm
from repro.nn.layers.sublayer import PreNorm as PreNorm
from repro.nn.layers.sublayer import Residual as Residual
from repro.nn.layers.sublayer import Sublayer as Sublayer
from repro.nn.layers.sublayer import WeightedPostNorm as WeightedPostNorm
from repro.nn.layers.sublayer import WeightedShortcut as WeightedShortcut
from repro.nn.mixer import Layout as Layout
from repro.nn.mixer import MixerOutput as MixerOutput
from repro.nn.mixer import SequenceMixer as SequenceMixer
from repro.nn.mixer import State as State
from repro.nn.positions.axial import AxialPositions as AxialPositions
from repro.nn.positions.positions import Added as Added
from repro.nn.positions.positions import Concatenated as Concatenated
from repro.nn.positions.positions import InputPositions as InputPositions
from repro.nn.positions.positions import LayerPositions as LayerPositions
from repro.nn.positions.positions import LearnedPositions as LearnedPositions
from repro.nn.positions.positions import NoPositions as NoPositions
from repro.nn.positions.positions import SinusoidalPositions as SinusoidalPositions
from repro.nn.positions.positions import SplitSinusoids as SplitSinusoids
from repro.nn.recurrent import NormedLSTM as NormedLSTM
from repro.nn.settings import CallSettings as CallSettings
from repro.nn.settings import MemorySettings as MemorySettings
from repro.nn.vocabularies.adaptive import AdaptiveVocabulary as AdaptiveVocabulary
from repro.nn.vocabularies.ctc import CtcHead as CtcHead
from repro.nn.vocabularies.embeddings import InputLayer as InputLayer
from repro.nn.vocabularies.embeddings import TokenEmbedding as TokenEmbedding
from repro.nn.vocabularies.embeddings import VectorEmbedding as VectorEmbedding
from repro.nn.vocabularies.heads import LinearHead as LinearHead
from repro.nn.vocabularies.heads import PaddedScores as PaddedScores
from repro.nn.vocabularies.heads import TokenScores as TokenScores
from repro.nn.vocabularies.heads import padded_scores as padded_scores
from repro.nn.vocabularies.heads import token_scores as token_scores
from repro.nn.vocabularies.mixture import PixelVocabulary as PixelVocabulary
from repro.nn.vocabularies.perceptron import PerceptronEmbedding as PerceptronEmbedding
from repro.nn.vocabularies.perceptron import PerceptronHead as PerceptronHead
from repro.nn.vocabularies.typed import TypedVocabulary as TypedVocabulary
from repro.nn.vocabularies.vocabulary import Vocabulary as Vocabulary
