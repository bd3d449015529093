"""LightningModules: the training objective and the scores of a network, and their callbacks."""

import repro.torchmetrics_import  # noqa: F401  before Lightning
from repro.tasks.classification import Classification as Classification
from repro.tasks.costs.layer_costs import LayerCosts as LayerCosts
from repro.tasks.costs.output_change import OutputChange as OutputChange
from repro.tasks.costs.scaling import Scaling as Scaling
from repro.tasks.costs.slowdown import Slowdown as Slowdown
from repro.tasks.language.dialogue import DialogueModel as DialogueModel
from repro.tasks.language.language_model import LanguageModel as LanguageModel
from repro.tasks.language.protocols import Protocol as Protocol
from repro.tasks.optim.optimizers import ClippedRAdam as ClippedRAdam
from repro.tasks.optim.optimizers import DecayedMatrices as DecayedMatrices
from repro.tasks.optim.optimizers import EpsilonHatAdam as EpsilonHatAdam
from repro.tasks.optim.optimizers import RatesByName as RatesByName
from repro.tasks.optim.optimizers import WaitingRAdam as WaitingRAdam
from repro.tasks.optim.schedules import Constant as Constant
from repro.tasks.optim.schedules import InverseSquareRoot as InverseSquareRoot
from repro.tasks.optim.schedules import LinearDecay as LinearDecay
from repro.tasks.optim.schedules import Noam as Noam
from repro.tasks.optim.schedules import Plateau as Plateau
from repro.tasks.optim.schedules import WarmupCosine as WarmupCosine
from repro.tasks.parsing import Parsing as Parsing
from repro.tasks.picture_model import PictureModel as PictureModel
from repro.tasks.picture_model import Timing as Timing
from repro.tasks.sequence_model import SequenceModel as SequenceModel
from repro.tasks.task import Task as Task
from repro.tasks.transcription import Transcription as Transcription
from repro.tasks.translation import Translation as Translation
