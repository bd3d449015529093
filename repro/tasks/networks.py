"""Interfaces of the networks that tasks use. :mod:`repro.models` has such networks; others with these methods work."""

from typing import Protocol

from torch import Tensor

from repro.models.generate import LanguageModelProtocol as Generator
from repro.models.generate import Translator
from repro.nn.mixer import MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings
from repro.nn.vocabularies.ctc import CtcHead
from repro.nn.vocabularies.heads import PaddedScores, TokenScores


class VocabularyProtocol(Protocol):
    """Scores hidden states ``(..., D)`` against V symbols."""

    size: int

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """``-log p`` of the targets ``(...)``, in nats, of their shape."""
        ...

    def log_probs(self, hidden: Tensor) -> Tensor:
        """``log p`` of every symbol, ``(..., V)``."""
        ...


class SmoothedVocabulary(VocabularyProtocol, Protocol):
    """A vocabulary that is also trained with label smoothing."""

    def score(self, hidden: Tensor, targets: Tensor) -> TokenScores:
        """The scores of every target that a cross-entropy with label smoothing needs."""
        ...

    def padded_score(self, hidden: Tensor, targets: Tensor, padding: int) -> PaddedScores:
        """The scores of every target where padding has no share of the smoothing."""
        ...


class TokenNetwork(Generator, Protocol):
    """A model of the next token, such as :class:`repro.models.DecoderLM`."""

    @property
    def vocabulary(self) -> VocabularyProtocol: ...

    def __call__(
        self,
        ids: Tensor,
        state: State = None,
        lengths: Tensor | None = None,
        settings: CallSettings = AS_BUILT,
    ) -> MixerOutput:
        """Hidden states ``(B, T, D)`` of ids ``(B, T)``, of which ``lengths (B,)`` are valid."""
        ...


class PairNetwork(Translator, Protocol):
    """A model of a target given its source, such as :class:`repro.models.EncoderDecoder`."""

    @property
    def vocabulary(self) -> SmoothedVocabulary: ...

    def __call__(
        self, source: Tensor, source_lengths: Tensor | None, target: Tensor, lengths: Tensor | None = None
    ) -> MixerOutput:
        """Hidden states ``(B, T, D)`` of the decoder, teacher-forced."""
        ...


class ClassifyingNetwork(Protocol):
    """A network that classifies, such as :class:`repro.models.Classifier`."""

    def __call__(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits ``(B, N, classes)`` of vectors ``(B, T, C)`` or ids ``(B, T)``."""
        ...


class TranscribingNetwork(Protocol):
    """A network that transcribes frames, such as :class:`repro.models.Transcriber`."""

    head: CtcHead

    def __call__(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Hidden states ``(B, T, D)`` of frames ``(B, T, C)``."""
        ...
