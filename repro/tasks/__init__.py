"""LightningModules: the training objective and the scores of a network, and their callbacks."""

import repro.torchmetrics_import  # noqa: F401  before Lightning
from repro.tasks.classification import Classification
from repro.tasks.costs.layer_costs import LayerCosts
from repro.tasks.costs.output_change import OutputChange
from repro.tasks.costs.scaling import Scaling
from repro.tasks.costs.slowdown import Slowdown
from repro.tasks.dialogue import DialogueModel
from repro.tasks.language.protocols import Protocol
from repro.tasks.language_model import LanguageModel
from repro.tasks.optim.optimizers import (
    ClippedRAdam,
    DecayedMatrices,
    EpsilonHatAdam,
    RatesByName,
    WaitingRAdam,
)
from repro.tasks.optim.schedules import Constant, InverseSquareRoot, LinearDecay, Noam, Plateau, WarmupCosine
from repro.tasks.parsing import Parsing
from repro.tasks.picture_model import PictureModel, Timing
from repro.tasks.sequence_model import SequenceModel
from repro.tasks.task import Task
from repro.tasks.transcription import Transcription
from repro.tasks.translation import Translation

__all__ = [
    "Classification",
    "ClippedRAdam",
    "Constant",
    "DecayedMatrices",
    "DialogueModel",
    "EpsilonHatAdam",
    "InverseSquareRoot",
    "LanguageModel",
    "LayerCosts",
    "LinearDecay",
    "Noam",
    "OutputChange",
    "Parsing",
    "PictureModel",
    "Plateau",
    "Protocol",
    "RatesByName",
    "Scaling",
    "SequenceModel",
    "Slowdown",
    "Task",
    "Timing",
    "Transcription",
    "Translation",
    "WaitingRAdam",
    "WarmupCosine",
]
