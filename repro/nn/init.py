"""Published initialisations, each with its source. A model takes one as ``init`` and applies it once."""

import math

from torch import nn

from repro.nn.attention.full import CrossAttention, FullAttention
from repro.nn.attention.relative.shaw import ShawAttention
from repro.nn.layers.feed_forward import FeedForward
from repro.nn.layers.stack import ResidualStack
from repro.nn.layers.sublayer import WeightedShortcut
from repro.nn.vocabularies.adaptive import Projection


def glorot(model: nn.Module) -> None:
    """Glorot-uniform linear weights, zero biases, ``N(0, 1/width)`` embeddings, unit norms.

    Fused projections count as one matrix: a fused q, k, v of width 3D has the bound ``sqrt(6 / 4D)``.

    Source: tensor2tensor of August 2017 (the code of Vaswani et al. 2017).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=1.0 / math.sqrt(module.embedding_dim))
    _neutral(model)


def glorot_fused(model: nn.Module) -> None:
    """:func:`glorot` with cross-attention's q, k, v as one matrix, too: all have the bound ``sqrt(6 / 4D)``.

    Source: fairseq of 2019, ``in_proj_weight``; separate matrices with gain ``1 / sqrt(2)`` in its later versions.
    """
    glorot(model)
    for module in model.modules():
        if isinstance(module, CrossAttention):
            fan = module.q.in_features + module.q.out_features + module.kv.out_features
            for part in (module.q, module.kv):
                nn.init.uniform_(part.weight, -math.sqrt(6.0 / fan), math.sqrt(6.0 / fan))


def glorot_separate(model: nn.Module) -> None:
    """:func:`glorot_fused`, whose q, k, v have biases ``U(-1/sqrt(D), 1/sqrt(D))``.

    Source: fairseq 0.9, ``MultiheadAttention.reset_parameters``: the three are linear layers of torch there, and it
    leaves their biases as torch draws them.
    """
    glorot_fused(model)
    for module in model.modules():
        if isinstance(module, FullAttention | CrossAttention):
            for part in (module.qkv,) if isinstance(module, FullAttention) else (module.q, module.kv):
                if part.bias is not None:
                    bound = 1.0 / math.sqrt(part.in_features)
                    nn.init.uniform_(part.bias, -bound, bound)


def normal_002(model: nn.Module, std: float = 0.02) -> None:
    """``N(0, std)`` linear and embedding weights, zero biases, unit norms.

    Source: Radford et al. 2019 (GPT-2), without its scaling by depth.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
    _neutral(model)


def normal_002_by_depth(model: nn.Module, std: float = 0.02) -> None:
    """:func:`normal_002`, where the output matrix of each of the n branches of a stack is ``N(0, std / sqrt(n))``.

    Raises:
        ValueError: a branch is neither full attention nor a feed-forward layer.

    Source: Radford et al. 2019 (GPT-2), section 2.3, in the form of nanoGPT, whose n is twice the number of layers.
    """
    normal_002(model, std)
    for stack in (module for module in model.modules() if isinstance(module, ResidualStack)):
        bodies = [sublayer.body for layer in stack.each() for sublayer in layer.values()]
        for body in bodies:
            nn.init.normal_(_output_of(body).weight, std=std / math.sqrt(len(bodies)))


def _output_of(body: nn.Module) -> nn.Linear:
    if isinstance(body, FullAttention | CrossAttention):
        return body.out
    if isinstance(body, FeedForward):
        return body.outer
    raise ValueError(f"normal_002_by_depth is for attention and FeedForward, not {type(body).__name__}")


def as_made(model: nn.Module) -> None:
    """Keeps the values that the layers drew when they were made: torch's own initialisation.

    Source: Katharopoulos et al. 2020, code: nothing is initialised there.
    """


class Normal:
    """``N(0, std)`` for everything of two dimensions or more, ``N(1, std)`` gains of norms, zero biases.

    Args:
        std: standard deviation.
        projection_std: of the projections of an adaptive vocabulary.
        convolutions: whether convolutions are initialised, too; False keeps what torch drew for them.

    Source: Dai et al. 2019, code. The vectors u and v of its scores have two dimensions, one for the heads. The bias of
    Shaw's encoding has two as well; it starts at zero. That code has no convolutions; the sorting code of Martins et
    al. 2022, which initialises as it does, leaves those of its memories alone.
    """

    def __init__(self, std: float = 0.02, projection_std: float = 0.01, convolutions: bool = True) -> None:
        self.std = std
        self.projection_std = projection_std
        self.convolutions = convolutions

    def __call__(self, model: nn.Module) -> None:
        """Initialises in place."""
        kept = set() if self.convolutions else set(_of_convolutions(model))
        for parameter in model.parameters():
            if parameter in kept:
                continue
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=self.std)
            else:
                nn.init.zeros_(parameter)
        for module in model.modules():
            if isinstance(module, Projection):
                nn.init.normal_(module.weight, std=self.projection_std)
            if isinstance(module, nn.LayerNorm) and module.weight is not None:
                nn.init.normal_(module.weight, mean=1.0, std=self.std)
            if isinstance(module, ShawAttention):
                nn.init.zeros_(module.place_bias)
            if isinstance(module, WeightedShortcut):
                module.reset()


def _of_convolutions(model: nn.Module) -> list[nn.Parameter]:
    """The parameters of a model's convolutions."""
    return [p for module in model.modules() if isinstance(module, nn.Conv1d) for p in module.parameters()]


def _neutral(model: nn.Module) -> None:
    """Zero biases and unit norms."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.LayerNorm) and module.weight is not None:
            nn.init.ones_(module.weight)
